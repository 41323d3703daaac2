"""Another library reads segments back as they were written."""

from __future__ import annotations

import io
from array import array

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench_loadgen.parquet import Lists, write_parquet
from vlmhyperbench_loadgen.thrift import varint, write_struct

KINDS = {"number": "i4", "instant": "i8?", "error": "str?", "event_ns": "i8[]", "event_kind": "str[]"}
WORDS = ("content", "usage", "role")
ROWS = st.lists(
    st.tuples(
        st.integers(-(2**31), 2**31 - 1),
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
        st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2)), max_size=40),
    ),
    min_size=1,
    max_size=30,
)


@given(ROWS)
def test_a_segment_is_read_back_as_it_was_written(
    rows: list[tuple[int, int | None, str | None, list[tuple[int, int]]]],
) -> None:
    events = [event for row in rows for event in row[3]]
    counts = [len(row[3]) for row in rows]
    data = write_parquet(
        {
            "number": [row[0] for row in rows],
            "instant": [row[1] for row in rows],
            "error": [row[2] for row in rows],
            "event_ns": Lists(counts=counts, items=array("q", [at for at, _ in events]).tobytes()),
            "event_kind": Lists(counts=counts, items=bytes(kind for _, kind in events), words=WORDS),
        },
        KINDS,
    )
    wanted = {
        "number": [row[0] for row in rows],
        "instant": [row[1] for row in rows],
        "error": [row[2] for row in rows],
        "event_ns": [[at for at, _ in row[3]] for row in rows],
        "event_kind": [[WORDS[kind] for _, kind in row[3]] for row in rows],
    }
    frame = pl.read_parquet(io.BytesIO(data))
    assert frame.to_dict(as_series=False) == wanted
    assert frame.schema["event_ns"] == pl.List(pl.Int64)


def test_a_lone_surrogate_is_replaced() -> None:
    data = write_parquet({"error": ["a\ud800b"]}, {"error": "str?"})
    assert pl.read_parquet(io.BytesIO(data))["error"].to_list() == ["a?b"]


@pytest.mark.parametrize(("number", "written"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02")])
def test_varints_hold_seven_bits_per_byte(number: int, written: str) -> None:
    assert varint(number).hex() == written


def test_fields_of_a_struct_must_ascend() -> None:
    assert write_struct({1: 1, 4: "a"}).hex() == "1502" + "380161" + "00"
    with pytest.raises(ValueError, match="field 1 after 2"):
        write_struct({2: 1, 1: 1})
