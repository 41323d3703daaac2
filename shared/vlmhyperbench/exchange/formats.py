"""The formats of exports, and the writer of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from vlmhyperbench.domain.short_ids import short
from vlmhyperbench.exchange.exported import ExportedRun, ExportedSample
from vlmhyperbench.exchange.pictures import Pictures
from vlmhyperbench.exchange.staging import Staging
from vlmhyperbench.wire.exports import ExportFormat
from vlmhyperbench.wire.runs import RunDetail

Format = ExportFormat
ENDINGS: Final[dict[Format, str]] = {"parquet": ".parquet", "jsonl": ".jsonl", "inspect": ".eval", "csv": ".csv"}
"""Format → file name extension, for the formats that are one file; the others are a folder."""


def name_of(run: RunDetail, format_: Format) -> str:
    """Return the name of the file or folder of a run's export."""
    ending = ENDINGS.get(format_)
    if ending is None:
        return f"export-{short(run.id)}"
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', run.name).strip('.-')[:80] or 'run'}-{short(run.id)}{ending}"


def write_samples(
    format_: Format,
    run: ExportedRun,
    samples: Iterable[ExportedSample],
    path: Path,
    staging: Staging,
    pictures: Pictures,
) -> None:
    """Write the samples of a run; `hf` has its own writer, which needs none."""
    from vlmhyperbench.exchange.as_inspect import write_inspect
    from vlmhyperbench.exchange.as_jsonl import write_jsonl
    from vlmhyperbench.exchange.as_lm_eval import write_lm_eval
    from vlmhyperbench.exchange.as_tables import write_csv, write_parquet

    writers: dict[str, Callable[..., None]] = {
        "parquet": write_parquet,
        "jsonl": write_jsonl,
        "csv": write_csv,
        "lm-eval": write_lm_eval,
        "inspect": partial(write_inspect, pictures=pictures),
    }
    writers[format_](run, samples, out=path, staging=staging)
