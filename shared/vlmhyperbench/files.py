"""Replace files atomically. Only regular files are replaced: replacing a device would turn it into a file.

Content is written to a temporary file in the same folder, which is then renamed. Symbolic links are followed, and
their target is replaced. Paths under `/proc`, to which `/dev/stdout` leads, are open files of processes and refused.
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
    """Return the path of a file that may be replaced or does not exist yet; links are followed.

    Raises:
        InvalidInput: it is a device, folder, pipe, socket or open file of a process, or a loop of links; code
            `not_a_file`.
        OSError: the path cannot be inspected.
    """
    if path == STDOUT:
        raise _refused(path, "stdout")
    target = _followed(path)
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    if not stat.S_ISREG(mode):
        raise _refused(path, _KINDS.get(stat.S_IFMT(mode), "not a regular file"))
    return target


def stamp_of(path: Path) -> tuple[int, ...]:
    """Return the values that change with a file's content; empty for a missing file."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def temporary_sibling(path: Path) -> Path:
    """Return the path of a new temporary file in the same folder."""
    return path.with_name(f".{secrets.token_hex(8)}.tmp")


def replace(temporary: Path, path: Path) -> None:
    """Move a file to its destination, replacing an existing file.

    Raises:
        InvalidInput: the destination is not a regular file.
        OSError: the file cannot be moved.
    """
    temporary.replace(destination(path))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; it replaces `path` if the block succeeds, and is removed if it fails.

    Raises:
        InvalidInput: the destination is not a regular file.
        OSError: the file cannot be written; it names a file.
    """
    temporary = temporary_sibling(destination(path))
    try:
        yield temporary
        replace(temporary, path)
    except OSError as error:
        # That of a write or a sync, such as on a full disk, names no file; nobody knows the temporary one.
        if error.filename is None or error.filename == os.fspath(temporary):
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes, *, mode: int = 0o666, is_durable: bool = False) -> None:
    """Write a file atomically; `is_durable` waits until its content is on disk.

    Raises:
        InvalidInput: the destination is not a regular file.
        OSError: the file cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with replacing(path) as temporary, os.fdopen(os.open(temporary, flags, mode), "wb") as file:
        file.write(content)
        if is_durable:
            file.flush()
            os.fsync(file.fileno())


def _followed(path: Path) -> Path:
    """Resolve links one by one, since links under `/proc` must not be followed: they do not name real files."""
    target = path
    for _ in range(_MAX_LINKS):
        folder = Path(os.path.realpath(target.parent))
        if folder.is_relative_to("/proc"):
            raise _refused(path, "an open file of a process")
        target = folder / target.name
        if not target.is_symlink():
            return target
        target = folder / target.readlink()
    raise _refused(path, "a link that leads nowhere")


def _refused(path: Path, what: str) -> InvalidInput:
    return InvalidInput(
        f"{path} is {what} and cannot be replaced.", cure="Name a regular file, or a new one.", code="not_a_file"
    )
