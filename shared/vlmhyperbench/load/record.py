"""Read the record that the load generator has written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vlmhyperbench_sdk.errors import NotFound

if TYPE_CHECKING:
    import polars as pl


def read_record(folder: Path) -> pl.DataFrame:
    """Read every sealed segment of a record, in order of phases and ordinals, without what was said.

    Raises:
        NotFound: there is no segment.
    """
    import polars as pl

    paths = sorted(folder.glob("*.parquet"))
    if not paths:
        raise NotFound(f"{folder.name} holds no sealed segment.", cure="See why the load generator ended.")
    said = ("text", "reasoning")
    return pl.scan_parquet(paths).drop(said).sort("phase", "ordinal").collect()
