"""Compile the receiver once for each version of its source, into the user's cache folder, if there is a C compiler.

The distribution is pure Python that contains the C source, so every package index accepts it and every platform can
install it. The library's name holds a hash of the source, the compiler and its flags: a change of any of them compiles
another library, and an old library is never loaded in its place.
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

    None on other platforms than Linux, without a compiler, or without a cache folder that is the user's own. A library
    is code that runs as the user, so a folder that others can write to is not used.
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
    """Hash the source, the command, and the machine and C library that the result runs with."""
    libc = os.confstr(_LIBC) if _LIBC in os.confstr_names else None
    digest = hashlib.sha256(repr((command, os.uname().machine, libc)).encode())
    digest.update(_SOURCE.read_bytes())
    return digest.hexdigest()[:16]


def _compile(command: list[str], file: Path) -> bool:
    """Compile into the same file system, then rename: another process sees the whole library or none."""
    import subprocess  # only a start that compiles has to import it

    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        compiled = Path(folder) / file.name
        try:
            compiler = subprocess.run(
                [*command, "-o", str(compiled), str(_SOURCE)], check=False, capture_output=True, timeout=_COMPILE_S
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        if compiler.returncode:
            return False
        compiled.replace(file)
    return True
