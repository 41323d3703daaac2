"""Reading the record of a load."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.shared.analysis.records import frame, row
from vlmhyperbench.load.record import read_record
from vlmhyperbench_sdk.errors import NotFound


def test_a_folder_without_segments_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_record(tmp_path)


def test_the_segments_of_a_record_are_one_table_in_order_and_without_texts(tmp_path: Path) -> None:
    texts = {"text": "an answer", "reasoning": ""}
    for name, phase, instants in (("1-0", 1, (5, 2)), ("0-0", 0, (9,)), ("1-1", 1, (3,))):
        rows = [row(phase=phase, at_ns=at_ns) for at_ns in instants]
        frame(rows).with_columns(**{key: pl.lit(value) for key, value in texts.items()}).write_parquet(
            tmp_path / f"{name}.parquet"
        )
    rows = read_record(tmp_path)
    assert rows.select("phase", "ordinal").rows() == [(0, 9), (1, 2), (1, 3), (1, 5)]
    assert not texts.keys() & set(rows.columns)
