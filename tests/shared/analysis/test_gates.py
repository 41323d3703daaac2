"""Gates: what passes, what fails, and what the samples cannot decide."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError

from vlmhyperbench.analysis.comparison import Delta
from vlmhyperbench.analysis.gates import Check, GatePolicy, Side, check, is_met

DELTA = Delta(
    label="ANLS",
    direction="higher",
    scale=1.0,
    pairs=100,
    baseline=0.9,
    other=0.89,
    difference=-0.01,
    low=-0.02,
    high=0.0,
    p_value=0.2,
    p_adjusted=0.2,
    test="permutation",
    detectable=0.02,
    equivalence_p=0.1,
    wins=1,
    ties=97,
    losses=2,
    verdict="no difference shown",
)
SIDE = Side(
    values={"anls": 0.89},
    headline={"latency_p50_ms": 100.0, "output_tokens_per_s": 50, "peak_memory_bytes": None},
    counts={"requested": 200, "missing": 2, "model_failures": 0},
    spec={"dataset": {"name": "d", "seed": 1}, "prompt": "p"},
    is_interrupted=False,
)


def run(rule: dict[str, object], *, delta: Delta = DELTA, other: Side = SIDE) -> list[Check]:
    policy = GatePolicy.model_validate({"rules": [rule]})
    return check(policy, baseline=SIDE, other=other, deltas={"anls": delta})


def status(rule: dict[str, object], **options: object) -> str:
    (found,) = run(rule, **options)  # type: ignore[arg-type]
    return found.status


@pytest.mark.parametrize(("limit", "expected"), [(0.02, "passed"), (0.01, "inconclusive"), (0.0, "inconclusive")])
def test_a_drop_passes_only_where_its_whole_interval_is_within_the_margin(limit: float, expected: str) -> None:
    assert status({"metric": "anls", "max_drop": limit}) == expected


def test_a_drop_fails_where_its_whole_interval_is_beyond_the_margin() -> None:
    worse = replace(DELTA, difference=-0.1, low=-0.15, high=-0.05)
    (found,) = run({"metric": "anls", "max_drop": 0.04}, delta=worse)
    assert found.status == "failed"
    assert found.message == "0.1 worse (95 % interval of the drop 0.05 to 0.15, 100 pairs); at most 0.04."


def test_a_rise_of_an_error_rate_is_a_drop() -> None:
    rate = replace(DELTA, direction="lower", difference=0.1, low=0.05, high=0.15)
    assert status({"metric": "anls", "max_drop": 0.04}, delta=rate) == "failed"
    assert status({"metric": "anls", "max_drop": 0.15}, delta=rate) == "passed"


def test_without_a_spread_the_difference_decides() -> None:
    same = replace(DELTA, difference=0.0, low=None, high=None)
    (found,) = run({"metric": "anls", "max_drop": 0.0}, delta=same)
    assert (found.status, found.message.split(" (")[0]) == ("passed", "no difference")
    better = replace(DELTA, difference=0.1, low=None, high=None)
    assert run({"metric": "anls", "max_drop": 0.0}, delta=better)[0].message.startswith("0.1 better")


def test_answers_that_cannot_be_paired_fail() -> None:
    assert status({"metric": "anls", "max_drop": 1}, delta=replace(DELTA, difference=None)) == "failed"


def test_a_metric_that_the_runs_do_not_share_fails_and_the_others_are_named() -> None:
    (found,) = run({"metric": "cer", "max_drop": 1})
    assert (found.status, found.message) == ("failed", "The runs do not share the metric; they share anls.")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"min_value": 0.89}, "passed"),
        ({"min_value": 0.9}, "failed"),
        ({"max_value": 0.89}, "passed"),
        ({"max_value": 0.8}, "failed"),
    ],
)
def test_a_value_has_its_limits(rule: dict[str, float], expected: str) -> None:
    assert status({"metric": "anls", **rule}) == expected


def test_a_limit_is_for_all_answers_of_the_run_not_only_for_the_paired_ones() -> None:
    assert DELTA.other == 0.89
    assert status({"metric": "anls", "min_value": 0.89}, other=replace(SIDE, values={"anls": 0.5})) == "failed"


def test_no_value_meets_no_limit() -> None:
    (found,) = run({"metric": "anls", "min_value": 0}, other=replace(SIDE, values={}))
    assert (found.status, found.message) == ("failed", "It has no value.")


def test_one_rule_may_ask_several_things() -> None:
    found = run({"metric": "anls", "max_drop": 0.02, "min_value": 0.5, "max_value": 0.5})
    assert [(one.rule, one.status) for one in found] == [
        ("anls max_drop", "passed"),
        ("anls min_value", "passed"),
        ("anls max_value", "failed"),
    ]


@pytest.mark.parametrize(
    ("latency", "rule", "expected"),
    [
        (110.0, {"max_increase": 0.1}, "passed"),
        (111.0, {"max_increase": 0.1}, "failed"),
        (50.0, {"max_increase": 0.1}, "passed"),
        (50.0, {"max_decrease": 0.4}, "failed"),
    ],
)
def test_a_speed_may_change_by_a_share(latency: float, rule: dict[str, float], expected: str) -> None:
    other = replace(SIDE, headline={**SIDE.headline, "latency_p50_ms": latency})
    assert status({"speed": "latency_p50_ms", **rule}, other=other) == expected


def test_a_speed_that_is_no_measure_decides_nothing() -> None:
    assert status({"speed": "peak_memory_bytes", "max_increase": 0}) == "inconclusive"
    broken = replace(SIDE, is_interrupted=True)
    assert status({"speed": "latency_p50_ms", "max_increase": 1}, other=broken) == "inconclusive"


def test_a_share_of_the_requests_may_be_lost() -> None:
    (found,) = run({"share": "missing", "max": 0.01})
    assert (found.status, found.message) == ("passed", "2 of 200 requests (1.00%); at most 1.00%.")
    assert status({"share": "missing", "max": 0.009}) == "failed"
    nothing = replace(SIDE, counts={"requested": 0, "missing": 0})
    assert status({"share": "missing", "max": 0.5}, other=nothing) == "failed"


def test_what_must_be_the_same_is_named_where_it_is_not() -> None:
    other = replace(SIDE, spec={"dataset": {"name": "d", "seed": 2}, "prompt": "p"})
    found = run({"same": ["dataset", "prompt"]}, other=other)
    assert [(one.status, one.message) for one in found] == [
        ("failed", "It differs in dataset.seed."),
        ("passed", "It is the same."),
    ]


def test_the_policy_says_what_an_open_question_counts_as() -> None:
    checks = [Check(rule="r", status="inconclusive", message="")]
    rules = [{"metric": "anls", "max_drop": 0}]
    assert not is_met(GatePolicy.model_validate({"rules": rules}), checks)
    assert is_met(GatePolicy.model_validate({"rules": rules, "inconclusive": "pass"}), checks)
    assert is_met(GatePolicy.model_validate({"rules": rules}), [])


@pytest.mark.parametrize(
    "rule",
    [
        {"metric": "anls"},
        {"speed": "latency_p50_ms"},
        {"speed": "warp", "max_increase": 1},
        {"share": "missing", "max": 2},
        {"same": []},
        {"metric": "anls", "max_drop": -1},
        {"metric": "anls", "max_drop": 0, "odd": 1},
        {"metric": "anls", "min_value": float("nan")},
    ],
)
def test_a_rule_that_means_nothing_is_refused(rule: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        GatePolicy.model_validate({"rules": [rule]})
