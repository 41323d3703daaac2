"""Which samples are asked: filters on metadata, and draws that depend on keys and seed only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vlmhyperbench.domain.filters import read_filter
from vlmhyperbench.domain.selection import SamplingSpec, draw, passes, stratum_of, text_of

KEYS = [(f"k{number}", ("rare",) if number % 10 == 0 else ("common",)) for number in range(100)]


def drawn(size: int, *, keys: Sequence[tuple[str, tuple[str, ...]]] = KEYS, **fields: Any) -> set[str]:
    return set(draw(keys, SamplingSpec(size=size, **fields)))


@pytest.mark.parametrize(
    ("text", "value", "is_met"),
    [
        ("kind=form,letter", "form", True),
        ("kind=form", "letter", False),
        ("kind=form", ["table", "form"], True),
        ("kind!=form", ["table", "form"], False),
        ("kind!=form", None, True),
        ("kind=*", None, False),
        ("kind!=*", None, True),
        ("kind=true", True, True),
        ("kind=2", 2, True),
        ("kind~ORM", "forms", True),
        ("kind<=3", 3, True),
        ("kind<3", 3, False),
        ("kind>=3", "3.5", True),
        ("kind>3", "many", False),
        ("kind>3", None, False),
    ],
)
def test_a_condition_is_met_by_the_value_of_the_metadata(text: str, value: Any, is_met: bool) -> None:
    assert passes(read_filter(text), {"kind": value, "other": 1}) is is_met


def test_values_are_compared_as_text_or_as_json() -> None:
    assert [text_of(value) for value in ("a", 1, None, {"b": [1], "a": "é"})] == [
        "a",
        "1",
        "null",
        '{"a": "é", "b": [1]}',
    ]
    assert stratum_of({"a": "x", "b": 2}, ("b", "a", "c")) == ("2", "x", "null")


def test_the_same_seed_draws_the_same_keys_in_any_order_and_another_seed_others() -> None:
    assert drawn(20) == drawn(20, keys=KEYS[::-1])
    assert drawn(20) != drawn(20, seed=1)
    assert len(drawn(20)) == 20
    assert drawn(1000) == {key for key, _ in KEYS}


@given(st.integers(min_value=1, max_value=99), st.integers())
def test_a_larger_draw_has_the_samples_of_a_smaller_one(size: int, seed: int) -> None:
    keys = [(key, ()) for key, _ in KEYS]
    assert drawn(size, keys=keys, seed=seed) < drawn(size + 1, keys=keys, seed=seed)


@given(
    st.lists(st.integers(min_value=1, max_value=30), min_size=1, max_size=6),
    st.sampled_from(["proportional", "equal"]),
)
@example([6, 6, 2], "proportional")  # the third stratum would get fewer of 11 than of 10 by largest remainders
def test_a_larger_draw_of_strata_has_the_samples_of_a_smaller_one(sizes: list[int], allocation: str) -> None:
    keys = [(f"{stratum}-{number}", (str(stratum),)) for stratum, count in enumerate(sizes) for number in range(count)]
    draws = [drawn(size, keys=keys, by=("s",), allocation=allocation) for size in range(1, sum(sizes) + 1)]
    assert all(smaller < larger for smaller, larger in pairwise(draws))


def strata(keys: set[str]) -> dict[str, int]:
    return Counter(dict(KEYS)[key][0] for key in keys)


def test_strata_get_their_share_or_equal_shares() -> None:
    assert strata(drawn(25, by=("kind",))) == {"rare": 2, "common": 23}
    assert strata(drawn(12, by=("kind",), allocation="equal")) == {"rare": 6, "common": 6}
    assert strata(drawn(40, by=("kind",), allocation="equal")) == {"rare": 10, "common": 30}


@given(st.lists(st.integers(min_value=1, max_value=30), min_size=1, max_size=6), st.integers(1, 200), st.booleans())
def test_the_shares_of_strata_add_up_and_fit(sizes: list[int], size: int, is_equal: bool) -> None:
    keys = [(f"{stratum}-{number}", (str(stratum),)) for stratum, count in enumerate(sizes) for number in range(count)]
    taken = drawn(size, keys=keys, by=("s",), allocation="equal" if is_equal else "proportional")
    assert len(taken) == min(size, sum(sizes))


def test_nothing_is_drawn_from_nothing() -> None:
    assert drawn(5, keys=[]) == set()
    assert drawn(5, keys=[], allocation="equal") == set()
