"""Seal finished requests as Parquet segments: in order of completion, synced to disk, then renamed."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from vlmhyperbench_loadgen.failures import SealFailed
from vlmhyperbench_loadgen.parquet import Column, Lists, write_parquet
from vlmhyperbench_loadgen.rows import KINDS, Row
from vlmhyperbench_sdk.load import RECORD_COLUMNS, SegmentLine

_NAMES = list(RECORD_COLUMNS)
_END = _NAMES.index("stream_end_ns")
_ITEM_BYTES = {"event_ns": 8, "event_tokens": 4, "event_kind": 1}


class Recorder:
    """Writes the segments of a record folder, numbered per phase."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers: dict[int, int] = {}

    def seal(self, phase: int, rows: list[Row]) -> SegmentLine:
        """Write rows in order of completion: a segment with its final name is whole and on disk.

        Raises:
            SealFailed: the disk is full, or the folder was removed.
        """
        number = self._numbers.get(phase, 0)
        self._numbers[phase] = number + 1
        name = f"{phase}-{number}.parquet"
        unfinished = self._folder / f"{name}.unfinished"
        data = encode_rows(rows)
        try:
            with unfinished.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(self._folder / name)
        except OSError as error:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise SealFailed(f"The segment {name} cannot be written: {error.strerror}.") from error
        sha256 = hashlib.sha256(data).hexdigest()
        return SegmentLine(event="segment", segment=name, phase=phase, rows=len(rows), sha256=sha256)


def encode_rows(rows: list[Row]) -> bytes:
    """Make the bytes of a segment."""
    ordered = sorted(rows, key=_ended_ns)
    columns = [list(column) for column in zip(*ordered, strict=True)]
    return write_parquet(dict(zip(_NAMES, map(_column, _NAMES, columns), strict=True)), RECORD_COLUMNS)


def _column(name: str, values: list[object]) -> Column:
    size = _ITEM_BYTES.get(name)
    if size is None:
        return values
    items = [value for value in values if isinstance(value, bytes)]
    return Lists(
        counts=[len(item) // size for item in items], items=b"".join(items), words=KINDS if name == "event_kind" else ()
    )


def _ended_ns(row: Row) -> int:
    ended = row[_END]
    return ended if isinstance(ended, int) else 0
