"""The Pareto front: candidates that no other dominates; a candidate without a value takes no part."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.analysis.pareto import non_dominated

FASTER_AND_BETTER = ("lower", "higher")


def test_a_candidate_that_is_worse_in_both_is_not_on_the_front() -> None:
    runs = [(10.0, 0.5), (20.0, 0.9), (25.0, 0.8)]
    assert non_dominated(runs, FASTER_AND_BETTER) == [True, True, False]


def test_a_candidate_that_is_equal_in_one_and_worse_in_the_other_is_dominated() -> None:
    assert non_dominated([(10.0, 0.5), (10.0, 0.6), (12.0, 0.6)], FASTER_AND_BETTER) == [False, True, False]


def test_equal_candidates_do_not_dominate_each_other() -> None:
    assert non_dominated([(10.0, 0.5), (10.0, 0.5), (11.0, 0.5)], FASTER_AND_BETTER) == [True, True, False]


def test_a_candidate_without_a_value_takes_no_part() -> None:
    assert non_dominated([(None, 0.99), (10.0, 0.5), (9.0, None)], FASTER_AND_BETTER) == [None, True, None]
    assert non_dominated([], FASTER_AND_BETTER) == []


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)), max_size=8))
def test_a_candidate_is_off_the_front_where_one_on_it_dominates(candidates: list[tuple[int, int, int]]) -> None:
    front = non_dominated(candidates, ("higher", "higher", "higher"))
    best = [candidate for candidate, is_on in zip(candidates, front, strict=True) if is_on]
    assert bool(best) == bool(candidates)
    for candidate, is_on in zip(candidates, front, strict=True):
        beaten = any(
            other != candidate and all(b >= a for a, b in zip(candidate, other, strict=True)) for other in best
        )
        assert is_on is not beaten
