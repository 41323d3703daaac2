"""Filters of lists are parsed to columns, operators and values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.domain.filters import Condition, number_of, read_filter, read_order
from vlmhyperbench.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("state=RUNNING,QUEUED", ("state", "=", ("RUNNING", "QUEUED"))),
        ("metrics.anls>=0.8", ("metrics.anls", ">=", ("0.8",))),
        (" spec.decoding.temperature != 0 ", ("spec.decoding.temperature", "!=", ("0",))),
        ("metrics.answer f1@strict<1", ("metrics.answer f1@strict", "<", ("1",))),
        ("name~a, b=c", ("name", "~", ("a, b=c",))),
        (r"group.kind=invoice\, scanned,receipt", ("group.kind", "=", ("invoice, scanned", "receipt"))),
        (r"group.kind!=a\b", ("group.kind", "!=", (r"a\b",))),
        ("latency_p99_ms=*", ("latency_p99_ms", "=", ("*",))),
    ],
)
def test_a_filter_is_a_column_an_operator_and_values(text: str, expected: tuple[str, str, tuple[str, ...]]) -> None:
    condition = read_filter(text)
    assert (condition.column, condition.operator, condition.values) == expected


@pytest.mark.parametrize(
    "text",
    ["", "state", "=x", "state=", "state=a,,b", "1=1", "a" * 300 + "=1", "x=" + "a," * 101, "x=" + ",".join("a" * 101)],
)
def test_what_is_no_filter_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_filter(text)
    assert caught.value.code == "bad_filter"


@given(st.text(max_size=60))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    try:
        condition = read_filter(text)
    except InvalidInput:
        return
    assert condition.values
    assert all(condition.values)


def test_an_order_is_a_column_with_its_direction() -> None:
    assert (read_order("-created_at").is_descending, read_order("metrics.anls").is_descending) == (True, False)
    assert read_order("-metrics.anls").text == "-metrics.anls"
    with pytest.raises(InvalidInput):
        read_order("-")


def test_only_finite_numbers_are_numbers() -> None:
    assert [number_of(text) for text in ("1e3", "-0.5", "nan", "inf", "1_0", "\u0661", "x")] == [
        1000.0,
        -0.5,
        *[None] * 5,
    ]
    assert Condition(column="total", operator="<", values=("0.5",)).number == 0.5
    with pytest.raises(InvalidInput):
        _ = Condition(column="total", operator="<", values=("many",)).number


def test_a_star_alone_asks_whether_there_is_a_value() -> None:
    assert [read_filter(text).is_any for text in ("total=*", "total!=*", "total~*", "total=1", "total=1,*")] == [
        True,
        True,
        False,
        False,
        False,
    ]
