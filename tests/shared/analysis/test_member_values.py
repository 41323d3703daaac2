"""Leave-one-out values of members, counted again by the plugin's vote."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tests.shared.analysis.ensembles import answers, ensemble
from vlmhyperbench.analysis.ensembles import Answers, Ensemble
from vlmhyperbench.analysis.member_values import member_values
from vlmhyperbench_pipeline.vote import Vote
from vlmhyperbench_sdk.aggregation import MemberAnswer


def votes_without(case: Ensemble, right: str) -> Mapping[str, Answers]:
    """Vote again without each member, and score 1 for the right text."""
    results = {}
    for left_out in case.members:
        others = [member for member in case.members if member is not left_out]
        given = [[MemberAnswer(name=other.name, text=other.texts[sample]) for other in others] for sample in range(2)]
        texts = [Vote().aggregate(members).value for members in given]
        results[left_out.name] = answers("vote", [float(text == right) for text in texts], texts)
    return results


CASE = ensemble(
    answers("vote", [1, 0], ["x", "y"]),
    answers("a", [0, 0], ["p", "y"]),
    answers("b", [1, 0], ["x", "y"]),
    answers("c", [1, 0], ["x", "y"]),
)


def test_a_member_is_worth_what_the_vote_loses_without_it() -> None:
    """Without b, a and c differ on the first sample, and the tie goes to a, which is wrong; likewise without c."""
    values = member_values(CASE, votes_without(CASE, "x"))
    assert [(value.name, value.samples, value.changed, value.value) for value in values] == [
        ("a", 2, 0, 0),
        ("b", 2, 1, 0.5),
        ("c", 2, 1, 0.5),
    ]
    assert values[0].interval is None
    assert values[1].interval is not None


def test_where_lower_is_better_a_member_that_lowers_the_value_helps() -> None:
    without = {"a": answers("vote", [1, 1])}
    (value,) = member_values(replace(CASE, direction="lower"), without)
    assert (value.name, value.value) == ("a", 0.5)


def test_only_samples_with_a_value_of_both_results_count() -> None:
    some = {"a": answers("vote", [math.nan, 1.0]), "b": answers("vote", [math.nan, math.nan])}
    first, second = member_values(CASE, some)
    assert (first.samples, first.value, first.interval) == (1, -1, None)
    assert (second.samples, second.value, second.interval) == (0, None, None)


def test_a_metric_without_a_value_gives_no_worth() -> None:
    undefined = replace(CASE, estimator=lambda sums: np.full(sums.shape[:-1], np.nan))
    assert [value.value for value in member_values(undefined, {"a": answers("vote", [1, 1])})] == [None]
