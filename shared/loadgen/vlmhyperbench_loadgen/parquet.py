"""Write a segment of the record as Parquet, without a library: importing one costs more CPU time than the measurement.

Covers only what `RECORD_COLUMNS` needs: required and optional 32- and 64-bit numbers and strings, required lists of
numbers and of a few different strings; one row group, one data page per column, texts compressed.
Format: https://parquet.apache.org/docs/file-format/ (pages, levels by the run-length hybrid, `PLAIN`, dictionaries).
"""

from __future__ import annotations

import re
import struct
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import TypeAlias, cast

from vlmhyperbench_loadgen.thrift import I64, Struct, Value, Written, varint, write_list, write_struct

MAGIC = b"PAR1"
COMPRESSED = ("text", "reasoning", "error")
"""Columns whose pages are worth compressing."""

_INT32, _INT64, _BYTES = 1, 2, 6
_REQUIRED, _OPTIONAL, _REPEATED = 0, 1, 2
_UTF8, _LIST = 0, 3
_PLAIN, _RLE, _RLE_DICTIONARY = 0, 3, 8
_UNCOMPRESSED, _GZIP = 0, 2
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_TYPES = {"i4": (_INT32, "i"), "i8": (_INT64, "q"), "str": (_BYTES, "")}
_LENGTH = struct.Struct("<I")
_PACKED_UP_TO = 8
"""Lists of kinds with at most this many items on average are bit-packed; longer lists are written as runs."""

_RUN = re.compile(rb"(.)\1*", re.DOTALL)

Column: TypeAlias = "Sequence[object] | Lists"
"""Numbers, texts or None, one per row; or lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """A column of lists, whose items are concatenated."""

    counts: Sequence[int]
    """Number of items of each row. Shape: (rows,)."""
    items: bytes
    """Little-endian numbers; for strings one byte each, an index into `words`. Shape: (Σ counts,)."""
    words: Sequence[str] = ()


def write_parquet(columns: Mapping[str, Column], kinds: Mapping[str, str]) -> bytes:
    """Write columns of the same number of rows; `kinds` are those of `RECORD_COLUMNS`."""
    parts: list[bytes] = [MAGIC]
    at, rows = len(MAGIC), 0
    chunks: list[Struct] = []
    for name, column in columns.items():
        rows = len(column.counts) if isinstance(column, Lists) else len(column)
        pages, metadata = _write_column(name, column, kinds[name], at)
        parts.append(pages)
        chunks.append({2: I64(at), 3: metadata})
        at += len(pages)
    group: Struct = {1: list[Value](chunks), 2: I64(at - len(MAGIC)), 3: I64(rows)}
    schema = _schema(tuple((name, kinds[name]) for name in columns))
    footer = write_struct({1: 1, 2: schema, 3: I64(rows), 4: [group], 6: "vlmhyperbench-loadgen"})
    return b"".join([*parts, footer, _LENGTH.pack(len(footer)), MAGIC])


@lru_cache(maxsize=8)
def _schema(columns: tuple[tuple[str, str], ...]) -> Written:
    """Write the schema of columns; cached, since every segment has the same schema."""
    return write_list(
        [{4: "record", 5: len(columns)}, *(element for column in columns for element in _describe(*column))]
    )


def _describe(name: str, kind: str) -> Iterator[Struct]:
    """Yield the elements of the schema that describe a column."""
    physical, _ = _TYPES[kind.rstrip("?[]")]
    converted: Struct = {6: _UTF8} if physical == _BYTES else {}
    if kind.endswith("[]"):
        yield {3: _REQUIRED, 4: name, 5: 1, 6: _LIST}
        yield {3: _REPEATED, 4: "list", 5: 1}
        yield {1: physical, 3: _REQUIRED, 4: "element", **converted}
    else:
        yield {1: physical, 3: _OPTIONAL if kind.endswith("?") else _REQUIRED, 4: name, **converted}


def _write_column(name: str, column: Column, kind: str, at: int) -> tuple[bytes, Struct]:
    """Return a column's pages and its metadata for the footer."""
    physical, code = _TYPES[kind.rstrip("?[]")]
    dictionary, path, encodings = b"", [name], [_PLAIN, _RLE]
    if isinstance(column, Lists):
        values, levels, data = _write_lists(column)
        path = [name, "list", "element"]
        if physical == _BYTES:
            dictionary, _ = _page(_plain_texts(column.words), {1: len(column.words), 2: _PLAIN}, is_dictionary=True)
            encodings = [_PLAIN, _RLE, _RLE_DICTIONARY]
            # With a bit width of 8, the value of a run is one byte, and packed values are the bytes themselves.
            is_long = len(column.items) > _PACKED_UP_TO * len(column.counts)
            data = b"\x08" + (_runs(column.items) if is_long else _pack(column.items))
    else:
        values, levels = len(column), b""
        present = [value for value in column if value is not None] if kind.endswith("?") else column
        if kind.endswith("?"):
            is_present = b"\x01" * values if len(present) == values else bytes([value is not None for value in column])
            levels = _level(_runs(is_present))
        data = array(code, cast("Sequence[int]", present)).tobytes() if code else _plain_texts(present)
    codec = _GZIP if name in COMPRESSED else _UNCOMPRESSED
    header: Struct = {1: values, 2: _RLE_DICTIONARY if dictionary else _PLAIN, 3: _RLE, 4: _RLE}
    page, saved = _page(levels + data, header, is_compressed=codec == _GZIP)
    size = len(dictionary) + len(page)
    metadata: dict[int, Value] = {1: physical, 2: encodings, 3: path, 4: codec, 5: I64(values), 6: I64(size + saved)}
    metadata |= {7: I64(size), 9: I64(at + len(dictionary))}
    if dictionary:
        metadata[11] = I64(at)
    return dictionary + page, metadata


def _write_lists(column: Lists) -> tuple[int, bytes, bytes]:
    """Return the number of values, their levels and their bytes; an empty list counts as one undefined value."""
    repeated = b"".join([_repeated(count) for count in column.counts])
    values = sum(column.counts) + column.counts.count(0)
    defined = b"".join(
        varint(sum([count or 1 for count in group]) << 1) + (b"\x01" if has_items else b"\x00")
        for has_items, group in groupby(column.counts, bool)
    )
    return values, _level(repeated) + _level(defined), column.items


@lru_cache(maxsize=4096)
def _repeated(count: int) -> bytes:
    """Write the repetition levels of one list."""
    return b"\x02\x00" + (varint((count - 1) << 1) + b"\x01" if count > 1 else b"")


def _level(runs: bytes) -> bytes:
    return _LENGTH.pack(len(runs)) + runs


def _runs(values: bytes) -> bytes:
    """Write one-byte numbers as runs of equal numbers."""
    if values and values.count(values[0]) == len(values):
        return varint(len(values) << 1) + values[:1]
    return b"".join(varint((run.end() - run.start()) << 1) + run[1] for run in _RUN.finditer(values))


def _pack(values: bytes) -> bytes:
    """Write one-byte numbers bit-packed, in groups of eight."""
    groups = -(-len(values) // 8)
    return varint(groups << 1 | 1) + values.ljust(8 * groups, b"\0")


def _plain_texts(texts: Sequence[object]) -> bytes:
    # In many columns most rows have the same text, so each text is encoded once.
    written: dict[object, bytes] = {}
    for text in set(texts):
        data = str(text).encode("utf-8", "replace")
        written[text] = _LENGTH.pack(len(data)) + data
    return b"".join([written[text] for text in texts])


def _page(
    data: bytes, header: Struct, *, is_dictionary: bool = False, is_compressed: bool = False
) -> tuple[bytes, int]:
    """Return a page with its header, and how many bytes compression saved."""
    stored = data
    if is_compressed:
        compressor = zlib.compressobj(1, zlib.DEFLATED, 31)
        stored = compressor.compress(data) + compressor.flush()
    kind, header_field = (_DICTIONARY_PAGE, 7) if is_dictionary else (_DATA_PAGE, 5)
    written = write_struct({1: kind, 2: len(data), 3: len(stored), header_field: header})
    return written + stored, len(data) - len(stored)
