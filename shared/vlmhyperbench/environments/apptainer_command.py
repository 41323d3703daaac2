"""Command lines of Apptainer: lists of arguments, never a shell's string."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from vlmhyperbench.errors import Unavailable

_INSTALL = "Install Apptainer (https://apptainer.org/docs/admin/latest/installation.html), or use a virtualenv."


def find_apptainer() -> str:
    """Return the path of the program.

    Raises:
        Unavailable: it is not installed.
    """
    program = shutil.which("apptainer")
    if program is None:
        message = "Apptainer is not installed on this machine."
        raise Unavailable(message, cure=_INSTALL, code="no_apptainer")
    return program


def apptainer_version() -> str:
    """Return the version of Apptainer on this machine.

    Raises:
        Unavailable: it is not installed, or does not run.
    """
    try:
        output = subprocess.run([find_apptainer(), "--version"], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"Apptainer does not run: {error}.", cure=_INSTALL, code="no_apptainer") from error
    return output.stdout.split()[-1]


def execute(sif: Path, argv: Sequence[str], *, paths: Sequence[str] = (), options: Sequence[str] = ()) -> list[str]:
    """Return the command that runs a program in a container which sees only its image and the given paths.

    Its processes see no others, no variable of the caller and no home; the image cannot be written. Rights of root are
    dropped.
    """
    mounts = [word for path in dict.fromkeys(paths) for word in ("--mount", _mount(path))]
    sealed = ["--containall", "--no-home", "--cleanenv", "--no-privs", "--pwd", "/tmp"]  # noqa: S108 -- the container's own
    return [find_apptainer(), "--quiet", "exec", *sealed, *mounts, *options, str(sif), *argv]


def _mount(path: str) -> str:
    """Return a mount for reading at the same path, with the quotes of CSV, which Apptainer reads."""
    line = io.StringIO()
    fields = ("type=bind", f"source={Path(path).resolve()}", f"destination={path}", "ro")
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()
