"""Read the request records that the load generator has written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vlmhyperbench_sdk.errors import NotFound

if TYPE_CHECKING:
    import polars as pl


def read_record(folder: Path) -> pl.DataFrame:
    """Read all sealed segments of a record, ordered by phase and ordinal, without the texts of the answers.

    Raises:
        NotFound: there is no segment.
    """
    import polars as pl

    paths = sorted(folder.glob("*.parquet"))
    if not paths:
        raise NotFound(
            f"{folder} contains no sealed segment.", cure="Read loadgen.log in it: the load generator failed."
        )
    return pl.scan_parquet(paths).drop("text", "reasoning").sort("phase", "ordinal").collect()
