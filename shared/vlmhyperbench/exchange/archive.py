"""Read an untrusted zip, one entry at a time; an entry that is too large or too dense is refused before unpacking.

inspect_ai compresses with Zstandard (method 93), which Python's zipfile supports from 3.14 on; polars unpacks it here.
polars does not limit the size of its output, so the block headers are read first: a block holds at most 128 KiB
(RFC 8878, section 3.1.1).
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.lines import cannot_read, not_installed

ZSTANDARD: Final = 93
MAX_ENTRIES: Final = 300_000
MAX_ENTRY_BYTES: Final = 64 * 1024**2
MAX_TOTAL_BYTES: Final = 64 * 1024**3
MAX_RATIO: Final = 1000
DENSE_BYTES: Final = 1024**2
"""Entries below this size may have any compression ratio."""

DAMAGES: Final = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError)
"""Errors that zipfile and polars raise for corrupt bytes."""

_ENCRYPTED: Final = 0x1
_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, ZSTANDARD})
_LOCAL_HEADER_BYTES: Final = 30
_BLOCK_BYTES: Final = 128 * 1024
_MAGIC: Final = 0xFD2FB528
_SKIPPABLE: Final = 0x184D2A50


class Archive:
    """An open zip; of several entries with one name the last one counts, as for every zip reader."""

    def __init__(self, path: Path, opened: zipfile.ZipFile, max_entry_bytes: int) -> None:
        self.path = path
        self._zip = opened
        self._max_entry_bytes = max_entry_bytes
        self._entries = {entry.filename: entry for entry in opened.infolist()}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the entries, in directory order."""
        return tuple(self._entries)

    @property
    def replaced(self) -> int:
        """Number of entries that are replaced by a later one of the same name."""
        return len(self._zip.filelist) - len(self._entries)

    def read(self, name: str) -> bytes:
        """Unpack an entry.

        Raises:
            InvalidInput: it is damaged, encrypted, larger than declared, or compressed by an unknown method.
        """
        entry, location = self._entries[name], f"{self.path}!{name}"
        if entry.flag_bits & _ENCRYPTED:
            raise InvalidInput(f"{location}: the entry is encrypted.", cure="Give the file without a password.")
        if entry.compress_type not in _METHODS:
            raise InvalidInput(f"{location}: the compression is unknown.", cure="Pack it with deflate or Zstandard.")
        try:
            if entry.compress_type == ZSTANDARD:
                return _unpacked(self._raw(entry, location), entry, self._max_entry_bytes, location)
            with self._zip.open(entry) as file:
                return file.read(self._max_entry_bytes)
        except DAMAGES as error:
            raise _damaged(location, str(error)) from error

    def _raw(self, entry: zipfile.ZipInfo, location: str) -> bytes:
        """Return the stored (compressed) bytes of an entry."""
        with self.path.open("rb") as file:
            file.seek(entry.header_offset)
            header = file.read(_LOCAL_HEADER_BYTES)
            if len(header) < _LOCAL_HEADER_BYTES or not header.startswith(b"PK\x03\x04"):
                raise _damaged(location, "its header is missing")
            file.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), 1)
            return file.read(entry.compress_size)


@contextmanager
def open_archive(
    path: Path, *, max_entry_bytes: int = MAX_ENTRY_BYTES, max_total_bytes: int = MAX_TOTAL_BYTES
) -> Iterator[Archive]:
    """Open a zip and check the sizes that its directory declares.

    Raises:
        NotFound: the file cannot be read.
        InvalidInput: it is no whole zip, or a bomb.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise cannot_read(path, error) from error
    with file:
        try:
            opened = zipfile.ZipFile(file)
        except DAMAGES as error:
            raise InvalidInput(
                f"{path} is not a whole zip file: it was cut off, or is still being written.",
                cure="Copy it again once it is finished.",
                code="cut_off",
            ) from error
        with opened:
            _check(opened.infolist(), path, max_entry_bytes, max_total_bytes)
            yield Archive(path, opened, max_entry_bytes)


def _check(entries: list[zipfile.ZipInfo], path: Path, max_entry_bytes: int, max_total_bytes: int) -> None:
    total = 0
    for entry in entries:
        total += entry.file_size
        location = f"{path}!{entry.filename}"
        if entry.file_size > max_entry_bytes:
            raise _bomb(f"{location} unpacks to {_mib(entry.file_size)}, more than {_mib(max_entry_bytes)}")
        if entry.file_size > DENSE_BYTES and entry.file_size > MAX_RATIO * entry.compress_size:
            raise _bomb(f"{location} unpacks to more than {MAX_RATIO} times its size")
    if len(entries) > MAX_ENTRIES:
        raise _bomb(f"{path} has {len(entries)} entries, more than {MAX_ENTRIES}")
    if total > max_total_bytes:
        raise _bomb(f"{path} unpacks to {_mib(total)}, more than {_mib(max_total_bytes)}")


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:,.4g} MiB"


def _bomb(what: str) -> InvalidInput:
    return InvalidInput(f"{what}.", cure="Split the file, if it comes from a source that you trust.", code="too_large")


def _damaged(location: str, why: str) -> InvalidInput:
    return InvalidInput(f"{location}: the entry is damaged: {why}.", cure="Copy the file again.", code="damaged")


def _unpacked(raw: bytes, entry: zipfile.ZipInfo, max_bytes: int, location: str) -> bytes:
    """Decompress Zstandard; the result must match the directory."""
    if _max_unpacked_bytes(raw, location) > max_bytes + _BLOCK_BYTES:
        raise _bomb(f"{location} unpacks to more than {_mib(max_bytes)}")
    try:
        import polars
    except ModuleNotFoundError as error:
        raise not_installed(error) from error

    try:
        lines = polars.read_lines(io.BytesIO(raw)).to_series().to_list()
    except polars.exceptions.PolarsError as error:
        raise _damaged(location, str(error).splitlines()[0]) from error
    text = "\n".join(lines).encode()
    if len(text) + 1 == entry.file_size:
        text += b"\n"
    if len(text) != entry.file_size or zlib.crc32(text) != entry.CRC:
        raise _damaged(location, "its checksum does not match")
    return text


def _max_unpacked_bytes(raw: bytes, location: str) -> int:
    """Return the maximum number of bytes that the frames can hold."""
    at = total = 0
    while at < len(raw):
        magic = _number(raw, at, 4, location)
        if magic & ~0xF == _SKIPPABLE:
            at += 8 + _number(raw, at + 4, 4, location)
            continue
        if magic != _MAGIC:
            raise _damaged(location, "it is not Zstandard")
        descriptor = _number(raw, at + 4, 1, location)
        is_single, has_checksum = descriptor >> 5 & 1, descriptor >> 2 & 1
        at += 5 + (not is_single) + (0, 1, 2, 4)[descriptor & 3] + (is_single, 2, 4, 8)[descriptor >> 6]
        is_last = False
        while not is_last:
            block = _number(raw, at, 3, location)
            is_last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
            total += _BLOCK_BYTES if kind == 2 else size
            at += 3 + (1 if kind == 1 else size)
        at += 4 * has_checksum
    if at != len(raw):
        raise _damaged(location, "it ends too early")
    return total


def _number(raw: bytes, at: int, size: int, location: str) -> int:
    if at + size > len(raw):
        raise _damaged(location, "it ends too early")
    return int.from_bytes(raw[at : at + size], "little")
