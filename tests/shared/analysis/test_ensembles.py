"""Ensembles: uplift over the best member, whose choice the interval includes, and what an oracle would reach."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.shared.analysis.ensembles import answers, ensemble
from vlmhyperbench.analysis import stats
from vlmhyperbench.analysis.ensembles import Uplift, oracles, uplift


def found(result: Uplift | None) -> Uplift:
    assert result is not None
    return result


def test_the_uplift_is_over_the_member_with_the_best_value() -> None:
    result = found(
        uplift(
            ensemble(
                answers("vote", [1, 1, 1, 0] * 10),
                answers("a", [1, 1, 0, 0] * 10),
                answers("b", [1, 0, 0, 0] * 10),
            )
        )
    )
    assert (result.best, result.value, result.uplift) == ("a", 0.75, 0.25)
    assert (result.samples, result.left_out, result.units) == (40, 0, 40)
    assert result.is_shown
    assert not result.is_refuted
    assert [(member.name, member.value, member.uplift) for member in result.members] == [
        ("a", 0.5, 0.25),
        ("b", 0.25, 0.5),
    ]
    assert all(member.uplift_interval and member.uplift_interval.low > 0 for member in result.members)


def test_of_a_metric_that_is_better_when_lower_a_smaller_value_is_an_uplift() -> None:
    case = ensemble(answers("vote", [0, 1] * 20), answers("a", [1, 1] * 20), direction="lower")
    result = found(uplift(case))
    assert (result.best, result.uplift) == ("a", 0.5)
    assert result.is_shown
    interval = result.members[0].uplift_interval
    assert interval is not None
    assert 0 < interval.low < 0.5 < interval.high


def test_a_result_that_is_worse_than_its_best_member_is_refuted() -> None:
    result = found(uplift(ensemble(answers("vote", [0, 1] * 20), answers("a", [1, 1] * 20))))
    assert result.is_refuted
    assert result.uplift == -0.5


@pytest.mark.parametrize(("vote", "member"), [(0, 1), (1, 0)])
def test_a_difference_that_is_the_same_in_every_document_is_shown_by_the_test(vote: int, member: int) -> None:
    def over(documents: int) -> Uplift:
        return found(uplift(ensemble(answers("vote", [vote] * documents), answers("a", [member] * documents))))

    result = over(100)
    assert (result.uplift, result.low, result.high, result.is_constant) == (vote - member, None, None, True)
    assert (result.is_shown, result.is_refuted) == (vote > member, vote < member)
    assert (over(6).is_shown, over(6).is_refuted) == (vote > member, vote < member)
    few = over(5)
    assert (few.is_constant, few.is_shown, few.is_refuted) == (True, False, False)


def test_equal_answers_and_a_single_document_show_nothing() -> None:
    same = found(uplift(ensemble(answers("vote", [1, 0] * 20), answers("a", [1, 0] * 20))))
    assert (same.uplift, same.is_constant, same.is_shown, same.is_refuted) == (0, True, False, False)
    single = found(uplift(ensemble(answers("vote", [1]), answers("a", [0]))))
    assert (single.is_constant, single.low) == (False, None)


def test_an_uplift_that_some_resamples_do_not_define_has_no_interval() -> None:
    def only_of_three(sums: np.ndarray) -> np.ndarray:
        return np.where(sums[..., 0] == sums[..., 0].max(), sums[..., 0], np.nan)

    case = replace(ensemble(answers("vote", [1, 2, 3]), answers("a", [1, 2, 3])), estimator=only_of_three)
    result = found(uplift(case))
    assert (result.is_constant, result.low, result.high) == (False, None, None)


def test_samples_without_a_value_of_any_target_are_left_out() -> None:
    result = found(uplift(ensemble(answers("vote", [1, 1, math.nan]), answers("a", [1, math.nan, 1]))))
    assert (result.samples, result.left_out) == (1, 2)
    assert (result.low, result.high, result.interval) == (None, None, None)
    assert (result.is_shown, result.is_refuted) == (False, False)
    nothing = ensemble(answers("vote", [math.nan]), answers("a", [1]))
    assert uplift(nothing) is None
    assert oracles(nothing) == ()


def test_a_metric_without_a_value_has_no_uplift() -> None:
    case = replace(
        ensemble(answers("vote", [1, 0]), answers("a", [1, 0])), estimator=lambda sums: np.full(sums.shape[:-1], np.nan)
    )
    assert uplift(case) is None


def test_the_interval_includes_the_choice_of_the_best_member() -> None:
    """Two members of equal skill that err independently: each is the best in about half of the resamples."""
    rng = np.random.default_rng(3)
    first, second, vote = (rng.integers(0, 2, 400).astype(float).tolist() for _ in range(3))
    result = found(uplift(ensemble(answers("vote", vote), answers("a", first), answers("b", second))))
    assert sum(member.best_share for member in result.members) == pytest.approx(1)
    assert all(member.best_share > 0.02 for member in result.members)
    naive = next(member.uplift_interval for member in result.members if member.name == result.best)
    assert naive is not None
    assert result.low is not None
    assert result.low <= naive.low + 0.01


def test_the_interval_does_not_claim_an_uplift_of_equal_targets() -> None:
    """Over 60 sets of equal targets, 7 lower ends above 0 are less likely than 0.1 %, were their probability 2.5 %."""
    rng = np.random.default_rng(11)
    claimed = 0
    for _ in range(60):
        vote, first, second = (rng.integers(0, 2, 24).astype(float).tolist() for _ in range(3))
        claimed += found(uplift(ensemble(answers("vote", vote), answers("a", first), answers("b", second)))).is_shown
    assert claimed < 7


def test_more_documents_than_a_bootstrap_takes_are_drawn_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "BOOTSTRAP_UNITS", 50)
    result = found(uplift(ensemble(answers("vote", [1, 1, 0] * 60), answers("a", [1, 0, 0] * 60))))
    assert result.units == 180
    assert result.low is not None
    assert result.high is not None
    assert 0.2 < result.low < 1 / 3 < result.high < 0.45


def test_an_oracle_of_k_members_picks_the_best_of_every_choice_of_k() -> None:
    case = ensemble(
        answers("vote", [1, 1, 1, 1]),
        answers("a", [1, 0, 0, 1]),
        answers("b", [0, 1, 0, 1]),
        answers("c", [0, 0, 0, 1]),
    )
    values = [(oracle.k, oracle.value) for oracle in oracles(case)]
    # Of the pairs ab, ac and bc, two contain the member that is right on the first sample, and two that of the second.
    assert values == [(1, pytest.approx(5 / 12)), (2, pytest.approx((2 / 3 + 2 / 3 + 0 + 1) / 4)), (3, 0.75)]
    assert all(oracle.interval is not None for oracle in oracles(case))


def test_an_oracle_picks_the_lowest_where_lower_is_better() -> None:
    case = ensemble(answers("vote", [1]), answers("a", [3]), answers("b", [1]), direction="lower")
    assert [oracle.value for oracle in oracles(case)] == [2, 1]
