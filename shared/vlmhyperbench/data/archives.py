"""Unpack a dataset that is one archive, once, into a folder that then is the dataset: nothing but files, within bounds.

An archive of others is hostile input: a name that leads out of the folder, a link or a device refuses it whole, and so
does content that is far larger than the archive. Sizes are counted while files are written; what the archive states of
them is not trusted.
"""

from __future__ import annotations

import gzip
import lzma
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final

from vlmhyperbench.data.integrity import WHOLE, check_hashes
from vlmhyperbench.data.room import MAKING, in_use, make_room
from vlmhyperbench.domain.datasets import is_archive
from vlmhyperbench.domain.specs import DatasetSpec
from vlmhyperbench.errors import STORAGE_FULL, InvalidInput, Unavailable
from vlmhyperbench.storage.hashing import content_hash

MAX_FILES: Final = 2_000_000
MAX_BYTES: Final = 256 * 1024**3
MAX_RATIO: Final = 200
"""Bytes of content for each byte of the archive: ten times that of text which compresses well."""
FREE_BYTES: Final = 16 * 1024**2
"""Content that any archive may have, whatever its ratio."""
SPARE_BYTES: Final = 1024**3
"""What stays free on the disk."""
MAX_NAME_CHARS: Final = 1000
_PIECE_BYTES: Final = 1024**2
_DAMAGED: Final = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError),
    *(NotImplementedError, RuntimeError),  # of zipfile, for a compression that it does not know, and for a password
)
_CURE: Final = "Pack the files and folders themselves, without links, with `zip -r` or `tar -czf`."
_RESOURCE_FORKS: Final = "__MACOSX"
"""Folder that macOS adds to each archive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What an archive may hold."""

    files: int = MAX_FILES
    size_bytes: int = MAX_BYTES
    ratio: int = MAX_RATIO


@contextmanager
def unpacked(
    spec: DatasetSpec, home: Path, bounds: Bounds = Bounds(), *, max_bytes: int = MAX_BYTES
) -> Iterator[DatasetSpec]:
    """Yield the spec with the folder of its archive's content, or a spec without an archive as it is.

    The content is not evicted until the block ends.

    Args:
        spec: The dataset, whose files are on this machine.
        home: Folder of all unpacked archives, by the hashes of their content.
        bounds: What the archive may hold.
        max_bytes: Bound of that folder; what was used least recently is evicted for more.

    Raises:
        InvalidInput: the archive is damaged, or holds what is refused.
        Conflict: it has another hash than the entry states.
        Unavailable: the disk has no room for it.
    """
    path = Path(spec.path or "")
    if not is_archive(spec.path) or not path.is_file():
        yield spec
        return
    stated = {name: sha256 for name, sha256 in spec.sha256.items() if name == WHOLE}
    check_hashes(spec.model_copy(update={"sha256": stated}))
    folder = home / content_hash(path)
    with in_use(folder):
        if not folder.is_dir():
            make_room(home, max_bytes, size_bytes=path.stat().st_size)
            making = Path(tempfile.mkdtemp(prefix=MAKING, dir=home))
            try:
                _unpack(path, making, bounds)
                _put(making, folder)
            finally:
                shutil.rmtree(making, ignore_errors=True)
            make_room(home, max_bytes)
        rest = {name: sha256 for name, sha256 in spec.sha256.items() if name != WHOLE}
        yield spec.model_copy(update={"path": str(_inner(folder)), "sha256": rest})


def _put(making: Path, folder: Path) -> None:
    """Rename a finished folder, unless another process has been faster with the same content."""
    try:
        making.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


def _inner(folder: Path) -> Path:
    """Return the only folder of an archive that was made of one, or the whole."""
    entries = list(folder.iterdir())
    return entries[0] if len(entries) == 1 and entries[0].is_dir() else folder


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    """An entry of an archive."""

    name: str
    kind: str
    """`file`, `folder`, or what else it is, in words."""
    opened: Callable[[], IO[bytes]]


def _unpack(archive: Path, folder: Path, bounds: Bounds) -> None:
    packed = archive.stat().st_size
    allowed = min(bounds.size_bytes, max(FREE_BYTES, bounds.ratio * packed))
    room = shutil.disk_usage(folder).free - SPARE_BYTES
    count = total = 0
    try:
        with _members(archive) as members:
            for member in members:
                target = folder / _checked(archive, member)
                if member.kind == "folder":
                    target.mkdir(parents=True, exist_ok=True)
                    continue
                if PurePosixPath(member.name).parts[0] == _RESOURCE_FORKS:
                    continue
                count += 1
                if count > bounds.files:
                    raise _refused(archive, f"it has more than {bounds.files:,} files")
                target.parent.mkdir(parents=True, exist_ok=True)
                with member.opened() as content, target.open("xb") as file:
                    while piece := content.read(_PIECE_BYTES):
                        total += len(piece)
                        _check_size(archive, total, allowed, room)
                        file.write(piece)
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise _refused(archive, f"two entries have the name {Path(str(error.filename)).name!r}") from error
    except _DAMAGED as error:
        raise _refused(archive, f"it is damaged or encrypted ({error})", cure="Copy or pack it again.") from error
    if not count:
        raise _refused(archive, "it has no files")


def _check_size(archive: Path, total: int, allowed: int, room: int) -> None:
    if total > allowed:
        message = f"its content is larger than {allowed:,} bytes, which is too much for an archive of its size"
        raise _refused(archive, message, cure="Unpack it yourself if you trust it, and name the folder.")
    if total > room:
        cure = "Free some space, or name a folder on another disk."
        raise Unavailable(f"The disk has no room for the content of {archive}.", cure=cure, code=STORAGE_FULL)


def _checked(archive: Path, member: _Member) -> str:
    """Return the name of an entry, which stays inside of the folder.

    Raises:
        InvalidInput: it may not be unpacked.
    """
    name = member.name
    shown = repr(name[:200])
    if len(name) > MAX_NAME_CHARS or not name.isprintable() or "\\" in name:
        raise _refused(archive, f"the name {shown} has characters that are not allowed, or too many of them")
    if name.startswith("/") or name[1:2] == ":":
        raise _refused(archive, f"the name {shown} is absolute")
    if ".." in name.split("/"):
        raise _refused(archive, f"the name {shown} leads out of the folder")
    if member.kind not in {"file", "folder"}:
        raise _refused(archive, f"{shown} is {member.kind}")
    return name


def _refused(archive: Path, what: str, *, cure: str = _CURE) -> InvalidInput:
    return InvalidInput(f"The archive {archive} is refused: {what}.", cure=cure, code="bad_archive")


@contextmanager
def _members(archive: Path) -> Iterator[Iterator[_Member]]:
    if archive.name.lower().endswith(".zip"):
        with zipfile.ZipFile(archive) as opened:
            yield (_of_zip(opened, info) for info in opened.infolist())
    else:
        with tarfile.open(archive) as packed:
            yield _of_whole_tar(packed)


def _of_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
    mode = info.external_attr >> 16
    kind = "folder" if info.is_dir() else "file"
    if stat.S_IFMT(mode) not in {0, stat.S_IFREG, stat.S_IFDIR}:
        kind = "a symbolic link" if stat.S_ISLNK(mode) else "a device or a pipe"
    return _Member(name=info.filename, kind=kind, opened=lambda: archive.open(info))


def _of_whole_tar(archive: tarfile.TarFile) -> Iterator[_Member]:
    """Yield every member, then read on to the end, since only there is the checksum of what was compressed."""
    for info in archive:
        yield _of_tar(archive, info)
    after = 0
    while archive.fileobj is not None and (piece := archive.fileobj.read(_PIECE_BYTES)):
        after += len(piece)
        if after > FREE_BYTES:
            raise tarfile.ReadError("there is more after its end")


def _of_tar(archive: tarfile.TarFile, info: tarfile.TarInfo) -> _Member:
    kinds = {"file": info.isreg(), "folder": info.isdir(), "a symbolic link": info.issym(), "a hard link": info.islnk()}
    kind = next((kind for kind, is_so in kinds.items() if is_so), "a device or a pipe")

    def opened() -> IO[bytes]:
        content = archive.extractfile(info)
        if content is None:
            raise tarfile.ReadError(f"{info.name} has no content")
        return content

    return _Member(name=info.name.removeprefix("./") or ".", kind=kind, opened=opened)
