"""Replace files whole or not at all. What is no regular file is never replaced: a device would become a file.

Content is written beside its place and renamed over it. A link is followed, and what it leads to is replaced. What
lies under `/proc`, as `/dev/stdout` does, is an open file of some process and no place for a file.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from vlmhyperbench.errors import InvalidInput

STDOUT: Final = Path("-")
_MAX_LINKS: Final = 40
_KINDS: Final = {
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


def destination(path: Path) -> Path:
    """Return where a file lies that may be replaced, or where nothing lies yet; links are followed.

    Raises:
        InvalidInput: it is a device, a folder, a pipe, a socket or an open file of a process; code `not_a_file`.
        OSError: nobody may look.
    """
    if path == STDOUT:
        raise _refused(path, "stdout")
    place = _followed(path)
    try:
        mode = place.stat().st_mode
    except FileNotFoundError:
        return place
    if not stat.S_ISREG(mode):
        raise _refused(path, _KINDS.get(stat.S_IFMT(mode), "no regular file"))
    return place


def temporary_sibling(place: Path) -> Path:
    """Return a new name in a destination's folder, under which its content can be written."""
    return place.with_name(f".{secrets.token_hex(8)}.tmp")


def replace(temporary: Path, path: Path) -> None:
    """Move a file to its destination; an older file there is replaced.

    Raises:
        InvalidInput: what lies there is no regular file.
        OSError: it cannot be moved.
    """
    temporary.replace(destination(path))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a name to write to; the file lies at `path` once the block has ended well, and else nothing has changed.

    Raises:
        InvalidInput: what lies there is no regular file.
        OSError: it cannot be written.
    """
    temporary = temporary_sibling(destination(path))
    try:
        yield temporary
        replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes, *, mode: int = 0o666, is_durable: bool = False) -> None:
    """Write a file whole or not at all; `is_durable` waits until it is on disk.

    Raises:
        InvalidInput: what lies there is no regular file.
        OSError: it cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with replacing(path) as temporary, os.fdopen(os.open(temporary, flags, mode), "wb") as file:
        file.write(content)
        if is_durable:
            file.flush()
            os.fsync(file.fileno())


def _followed(path: Path) -> Path:
    """Follow links one by one: those of `/proc` only look as if they named files."""
    place = path
    for _ in range(_MAX_LINKS):
        folder = Path(os.path.realpath(place.parent))
        if folder.is_relative_to("/proc"):
            raise _refused(path, "an open file of a process")
        place = folder / place.name
        if not place.is_symlink():
            return place
        place = folder / place.readlink()
    raise _refused(path, "a link that leads nowhere")


def _refused(path: Path, what: str) -> InvalidInput:
    return InvalidInput(f"{path} is {what} and cannot be replaced.", cure="Name a file.", code="not_a_file")
