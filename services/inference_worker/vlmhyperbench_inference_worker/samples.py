"""Device samples: written to a file as they are taken, so that they survive any process, and stored as Parquet."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import IO


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSample:
    """The values at one instant; None if the machine does not measure it."""

    monotonic_ns: int
    wall_ns: int
    cpu_util_percent: float
    memory_used_bytes: int
    engine_rss_bytes: int | None
    accelerator_memory_used_bytes: int | None
    accelerator_util_percent: float | None
    power_accelerator_w: float | None
    temperature_accelerator_c: float | None


def open_samples(path: Path) -> IO[bytes]:
    """Open a file of samples that is written without a buffer: what was written survives the death of the process.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("ab", buffering=0)


def write_sample(file: IO[bytes], sample: DeviceSample) -> None:
    """Append a sample.

    Raises:
        OSError: the disk is full.
    """
    file.write(json.dumps(astuple(sample)).encode() + b"\n")


def read_samples(path: Path) -> list[DeviceSample]:
    """Read a file of samples; empty without a file. A last line that was cut when its writer died is left out."""
    names = [field.name for field in fields(DeviceSample)]
    samples = []
    for line in path.read_bytes().split(b"\n") if path.is_file() else []:
        with suppress(ValueError):
            samples.append(DeviceSample(**dict(zip(names, json.loads(line), strict=True))))
    return samples


def samples_parquet(samples: Sequence[DeviceSample]) -> bytes:
    """Return samples as Parquet, one row each."""
    import polars  # imported late: a worker that stores no samples needs no polars

    types: dict[str, type[polars.Float64 | polars.Int64]] = {
        column.name: polars.Float64 if "float" in str(column.type) else polars.Int64 for column in fields(DeviceSample)
    }
    frame = polars.DataFrame([astuple(sample) for sample in samples], schema=types, orient="row")
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()
