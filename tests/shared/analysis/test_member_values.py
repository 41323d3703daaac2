"""Leave-one-out values of members, counted by the plugin's vote."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tests.shared.analysis.ensembles import answers, ensemble
from vlmhyperbench.analysis.member_values import member_values
from vlmhyperbench_pipeline.vote import Vote


def test_a_member_is_worth_what_the_vote_loses_without_it() -> None:
    case = ensemble(
        answers("vote", [1, 1, 0, 1], ["x", "y", "z", "w"]),
        answers("a", [0, 0, 0, 1], ["p", "q", "z", "w"]),
        answers("b", [1, 1, 0, 1], ["x", "y", "z", "w"]),
        answers("c", [1, 1, 0, 0], ["x", "y", "z", None]),
    )
    first, second, third = member_values(case, Vote())
    assert (first.name, first.samples, first.unknown, first.changed, first.value) == ("a", 4, 0, 0, 0)
    # Without b, a and c differ on the first two samples, and the tie goes to a, which is wrong.
    assert (second.changed, second.value) == (2, 0.5)
    assert second.interval is not None
    assert third.changed == 2


def test_a_member_that_harms_has_a_value_below_zero() -> None:
    case = ensemble(
        answers("vote", [1, 1], ["bad", "bad"]),
        answers("a", [1, 1], ["bad", "bad"]),
        answers("b", [0, 0], ["good", "good"]),
        answers("c", [0, 0], ["good", "good"]),
        direction="lower",
    )
    assert [value.value for value in member_values(case, Vote())] == [-1, 0, 0]


def test_an_answer_without_a_score_is_unknown() -> None:
    case = ensemble(
        answers("vote", [1.0, math.nan], ["x", "y"]),
        answers("a", [1.0, 1.0], ["x", "y"]),
        answers("b", [1.0, 1.0], [None, None]),
    )
    first, second = member_values(case, Vote())
    assert (first.samples, first.unknown, first.changed, first.value, first.interval) == (0, 2, 2, None, None)
    assert (second.samples, second.unknown, second.value) == (1, 1, 0)


def test_a_metric_without_a_value_gives_no_worth() -> None:
    case = ensemble(answers("vote", [1], ["x"]), answers("a", [1], ["x"]), answers("b", [1], ["x"]))
    undefined = replace(case, estimator=lambda sums: np.full(sums.shape[:-1], np.nan))
    assert [(member.samples, member.value) for member in member_values(undefined, Vote())] == [(1, None), (1, None)]


def test_a_single_member_cannot_be_left_out() -> None:
    assert member_values(ensemble(answers("vote", [1]), answers("a", [1])), Vote()) == ()
