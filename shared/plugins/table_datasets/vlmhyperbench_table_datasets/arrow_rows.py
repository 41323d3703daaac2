"""Rows of Arrow IPC files, as `datasets` saves them: read batch by batch, with no package but polars.

polars reads a stream only whole. A stream is a sequence of framed messages, so its schema and one batch are a stream
too (Arrow columnar format, "Encapsulated message format" and "IPC streaming format").
"""

from __future__ import annotations

import io
import mmap
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

import polars as pl

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_table_datasets.parquet_rows import BATCH_ROWS, unreadable
from vlmhyperbench_table_datasets.rows import Facts, Row, RowError

_MAGIC: Final = b"ARROW1"
"""Beginning of the file format, which has an index of its batches, so that polars reads it in batches itself."""
_CONTINUATION: Final = 0xFFFFFFFF
_END: Final = struct.pack("<Ii", _CONTINUATION, 0)
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
"""Types of messages."""
_HEADER_TYPE, _BODY_LENGTH = 1, 3
"""Fields of the flatbuffer table `Message`."""


@dataclass(frozen=True, kw_only=True)
class ArrowTable:
    """Arrow files, one after the other; all have the columns of the first."""

    files: tuple[Path, ...]
    root: Path
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.files[0] if len(self.files) == 1 else self.root)

    def facts(self) -> Facts:
        return self._facts

    @cached_property
    def _facts(self) -> Facts:
        with _frames(self.files[0], None) as frames:
            return Facts(columns=tuple(next(frames).columns), labels=self.labels)

    def rows(self, columns: Collection[str] | None = None) -> Iterator[Row | RowError]:
        number = 0
        for file in self.files:
            first = number
            with _frames(file, columns) as frames:
                for frame in frames:
                    for cells in frame.iter_rows(named=True):
                        yield Row(number, cells, f"{file} row {number - first}")
                        number += 1


@contextmanager
def _frames(file: Path, columns: Collection[str] | None) -> Iterator[Iterator[pl.DataFrame]]:
    """Yield the batches of a file as frames, at least one, which may have no rows."""
    try:
        with file.open("rb") as opened:
            if not file.stat().st_size:
                raise InvalidInput(f"{file} is empty.", cure="Copy or fetch the file again.")
            if opened.read(len(_MAGIC)) == _MAGIC:
                yield _indexed(file, columns)
                return
            with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
                yield _frames_of(content, columns)
    except (OSError, struct.error, pl.exceptions.PolarsError) as error:
        raise unreadable(file, error) from error


def _indexed(file: Path, columns: Collection[str] | None) -> Iterator[pl.DataFrame]:
    lazy = pl.scan_ipc(file, glob=False)
    return iter((lazy if columns is None else lazy.select(columns)).collect_batches(chunk_size=BATCH_ROWS))


def _frames_of(content: mmap.mmap, columns: Collection[str] | None) -> Iterator[pl.DataFrame]:
    head, is_first = b"", True
    for kind, message in _messages(content):
        if kind in (_SCHEMA, _DICTIONARY):
            head += message
        elif kind == _BATCH:
            yield _frame(head + message + _END, columns)
            is_first = False
    if is_first:
        yield _frame(head + _END, columns)


def _frame(stream: bytes, columns: Collection[str] | None) -> pl.DataFrame:
    return pl.read_ipc_stream(io.BytesIO(stream), columns=None if columns is None else list(columns))


def _messages(content: mmap.mmap) -> Iterator[tuple[int, bytes]]:
    """Yield the type of each message, and its bytes with frame and body.

    Raises:
        struct.error: the file ends within a message, or is in another format.
    """
    position = 0
    while True:
        mark, length = struct.unpack_from("<Ii", content, position)
        if mark != _CONTINUATION or length < 0:
            raise struct.error("it is no Arrow IPC file")
        if length == 0:
            return
        start = position + 8
        kind = _field(content, start, _HEADER_TYPE, "<B")
        end = start + length + _field(content, start, _BODY_LENGTH, "<q")
        if end > len(content):
            raise struct.error(f"it is cut off: {len(content)} bytes instead of at least {end}")
        yield kind, content[position:end]
        position = end
        if position == len(content):  # a writer may end a stream with its file
            return


def _field(content: mmap.mmap, start: int, number: int, form: str) -> int:
    """Return a scalar of the root table of a flatbuffer; 0 if it is absent."""
    table = start + struct.unpack_from("<I", content, start)[0]
    fields = table - struct.unpack_from("<i", content, table)[0]
    if 4 + 2 * number >= struct.unpack_from("<H", content, fields)[0]:
        return 0
    offset = struct.unpack_from("<H", content, fields + 4 + 2 * number)[0]
    return int(struct.unpack_from(form, content, table + offset)[0]) if offset else 0
