"""Seal finished requests as Parquet: the only place that knows polars, imported when the first segment is due."""

from __future__ import annotations

import hashlib
import io
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vlmhyperbench_loadgen.failures import SealFailed
from vlmhyperbench_loadgen.rows import Row
from vlmhyperbench_sdk.load import RECORD_COLUMNS, SegmentLine

if TYPE_CHECKING:
    import polars as pl

_END = list(RECORD_COLUMNS).index("stream_end_ns")


class Recorder:
    """Writes the segments of a record folder, numbered per phase."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers: dict[int, int] = {}

    def seal(self, phase: int, rows: list[Row]) -> SegmentLine:
        """Write rows in order of completion, to disk and under their final name at once.

        Raises:
            SealFailed: the disk is full or the folder gone.
        """
        import polars as pl

        number = self._numbers.get(phase, 0)
        self._numbers[phase] = number + 1
        ordered = sorted(rows, key=_ended_ns)
        columns = dict(zip(RECORD_COLUMNS, map(list, zip(*ordered, strict=True)), strict=True))
        name = f"{phase}-{number}.parquet"
        unfinished = self._folder / f"{name}.unfinished"
        buffer = io.BytesIO()
        pl.DataFrame(columns, schema=_schema()).write_parquet(buffer)
        data = buffer.getbuffer()
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


def _ended_ns(row: Row) -> int:
    ended = row[_END]
    return ended if isinstance(ended, int) else 0


def _schema() -> dict[str, pl.DataType]:
    import polars as pl

    kinds: dict[str, pl.DataType] = {"i4": pl.Int32(), "i8": pl.Int64(), "str": pl.String()}
    schema: dict[str, pl.DataType] = {}
    for name, kind in RECORD_COLUMNS.items():
        is_list = kind.endswith("[]")
        plain = kinds[kind.removesuffix("[]").removesuffix("?")]
        schema[name] = pl.List(plain) if is_list else plain
    return schema
