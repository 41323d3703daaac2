"""Compile the receiver where a C compiler is: once for each source, into the user's cache folder.

The distribution is pure Python with the C beside it, so a package index takes it and every platform installs it. The
library's name holds a hash of all that it is made of: a changed source, compiler or flag compiles anew, and an old
library is never taken for a new one.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
import tempfile
from pathlib import Path

LIBRARY = "VLMHYPERBENCH_RECEIVER_LIBRARY"
"""Environment variable: a library that is used instead, for sanitizers and fuzzers."""

_SOURCE = Path(__file__).with_name("receiving.c")
_COMPILE_S = 60.0
_LIBC = "CS_GNU_LIBC_VERSION"
_PRIVATE_MODE = 0o700
_WRITABLE_BY_OTHERS = 0o022


def library() -> Path | None:
    """Return the compiled receiver, compiling it first where that was not done yet.

    None where it cannot be had: another platform than Linux, no compiler, or no cache folder that is the user's own.
    What is loaded is code, so a folder that others can write to is not used.
    """
    if named := os.environ.get(LIBRARY):
        return Path(named)
    if not sys.platform.startswith("linux"):
        return None
    command = [*shlex.split(os.environ.get("CC", "cc")), "-O2", "-shared", "-fPIC"]
    folder = _cache_folder()
    file = folder / f"receiver-{_key(command)}.so"
    try:
        folder.mkdir(mode=_PRIVATE_MODE, parents=True, exist_ok=True)
        state = folder.stat()
        if state.st_uid != os.geteuid() or state.st_mode & _WRITABLE_BY_OTHERS:
            return None
        return file if file.is_file() or _compile(command, file) else None
    except OSError:
        return None


def _cache_folder() -> Path:
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if named.startswith("/") else Path.home() / ".cache") / "vlmhyperbench"


def _key(command: list[str]) -> str:
    """Hash the source, the command, and the machine and C library that the result fits."""
    libc = os.confstr(_LIBC) if _LIBC in os.confstr_names else None
    made_of = hashlib.sha256(repr((command, os.uname().machine, libc)).encode())
    made_of.update(_SOURCE.read_bytes())
    return made_of.hexdigest()[:16]


def _compile(command: list[str], file: Path) -> bool:
    """Compile beside the file, then move the result into place: another process sees a whole library or none."""
    import subprocess  # only the first start pays for it

    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        made = Path(folder) / file.name
        try:
            compiled = subprocess.run(
                [*command, "-o", str(made), str(_SOURCE)], check=False, capture_output=True, timeout=_COMPILE_S
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        if compiled.returncode:
            return False
        made.replace(file)
    return True
