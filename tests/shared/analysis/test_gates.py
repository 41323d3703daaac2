"""Gates: what passes, what fails, and what the samples cannot decide."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError

from vlmhyperbench.analysis.comparison import Delta
from vlmhyperbench.analysis.gates import Check, GatePolicy, Side, WholeRun, check, is_met
from vlmhyperbench.domain.identity import Measurement
from vlmhyperbench.domain.scenarios import ScenarioSpec

DELTA = Delta(
    key="anls",
    label="ANLS",
    direction="higher",
    scale=1.0,
    is_bounded=True,
    pairs=200,
    lost=0,
    units=100,
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
WHOLE = WholeRun(value=0.89, lower=0.89, upper=0.89, without=0, lost={"unscored": 0, "invalid": 4})
MEASUREMENT = Measurement(scenario=ScenarioSpec(in_flight=4), manifest_id="m", machines=frozenset({"CPU, 2 threads"}))
SIDE = Side(
    metrics={"anls": WHOLE},
    headline={"latency_p50_ms": 100.0, "output_tokens_per_s": 50, "peak_memory_bytes": None},
    counts={"requested": 200, "missing": 0, "model_failures": 0, "truncated": 2},
    spec={"dataset": {"name": "d", "seed": 1}, "prompt": "p"},
    measurement=MEASUREMENT,
    is_interrupted=False,
    is_stopped=False,
)


def run(rule: dict[str, object], *, delta: Delta = DELTA, baseline: Side = SIDE, other: Side = SIDE) -> list[Check]:
    policy = GatePolicy.model_validate({"rules": [rule]})
    return check(policy, baseline=baseline, other=other, deltas={"anls": delta})


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
    assert found.message == "0.1 worse (95 % interval of the drop 0.05 to 0.15, 200 pairs); at most 0.04."


def test_a_rise_of_an_error_rate_is_a_drop() -> None:
    rate = replace(DELTA, direction="lower", difference=0.1, low=0.05, high=0.15)
    assert status({"metric": "anls", "max_drop": 0.04}, delta=rate) == "failed"
    assert status({"metric": "anls", "max_drop": 0.15}, delta=rate) == "passed"


@pytest.mark.parametrize(
    ("units", "limit", "expected"),
    [(1, 0.3, "inconclusive"), (1, 0.975, "passed"), (100, 0.03, "inconclusive"), (100, 0.0363, "passed")],
)
def test_without_a_spread_it_depends_on_how_many_documents_there_were(units: int, limit: float, expected: str) -> None:
    same = replace(DELTA, difference=0.0, low=None, high=None, units=units)
    (found,) = run({"metric": "anls", "max_drop": limit}, delta=same)
    assert (found.status, found.message.split(" (")[0]) == (expected, "no difference")
    better = replace(same, difference=0.1)
    assert run({"metric": "anls", "max_drop": limit}, delta=better)[0].message.startswith("0.1 better")


def test_answers_without_a_pair_count_as_the_worst_and_as_the_best_that_they_could_be() -> None:
    lost = replace(DELTA, pairs=198, lost=2)
    (found,) = run({"metric": "anls", "max_drop": 0.02}, delta=lost)
    assert (found.status, found.message) == (
        "inconclusive",
        (
            "0.01 worse (95 % interval of the drop 0 to 0.02, 198 pairs); at most 0.02. "
            "Answers without a pair: 2; with them, the drop could be -0.01 to 0.0298."
        ),
    )
    assert status({"metric": "anls", "max_drop": 0.04}, delta=lost) == "passed"
    assert status({"metric": "anls", "max_drop": 9}, delta=replace(lost, is_bounded=False)) == "inconclusive"
    ended_early = replace(SIDE, counts={**SIDE.counts, "missing": 100})
    few = replace(DELTA, pairs=90, lost=10)
    (found,) = run({"metric": "anls", "max_drop": 0.04}, delta=few, baseline=ended_early, other=ended_early)
    assert "Answers without a pair: 110;" in found.message
    assert found.status == "inconclusive"


def test_what_a_stop_rule_spared_is_not_lost() -> None:
    stopped = replace(SIDE, counts={**SIDE.counts, "requested": 100}, is_stopped=True)
    few = replace(DELTA, pairs=100, lost=100)
    assert status({"metric": "anls", "max_drop": 0.04}, delta=few, other=stopped) == "passed"
    fewer = replace(few, pairs=90, lost=110)
    assert status({"metric": "anls", "max_drop": 0.04}, delta=fewer, other=stopped) == "inconclusive"


def test_answers_that_cannot_be_paired_fail() -> None:
    assert status({"metric": "anls", "max_drop": 1}, delta=replace(DELTA, difference=None)) == "failed"


def test_a_drop_of_a_metric_without_a_difference_between_the_runs_fails() -> None:
    policy = GatePolicy.model_validate({"rules": [{"metric": "anls", "max_drop": 1}]})
    (found,) = check(policy, baseline=SIDE, other=SIDE, deltas={})
    assert (found.rule, found.status) == ("anls max_drop", "failed")


def test_a_metric_without_a_direction_has_no_drop() -> None:
    assert status({"metric": "anls", "max_drop": 1}, delta=replace(DELTA, direction=None)) == "inconclusive"


def test_a_metric_that_the_runs_do_not_share_fails_and_the_others_are_named() -> None:
    (found,) = run({"metric": "cer", "max_drop": 1})
    assert (found.status, found.message) == ("failed", "The run has no such metric; it has anls.")


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
    assert status({"metric": "anls", "min_value": 0.89}, other=whole(value=0.5)) == "failed"


def whole(**changes: object) -> Side:
    return replace(SIDE, metrics={"anls": replace(WHOLE, **changes)})  # type: ignore[arg-type]


def test_a_value_over_few_answers_passes_only_where_the_others_could_not_change_that() -> None:
    few = whole(value=1.0, lower=0.2, upper=1.0, without=160)
    (found,) = run({"metric": "anls", "min_value": 0.5}, other=few)
    assert (found.status, found.message) == (
        "inconclusive",
        (
            "It is 1, the limit 0.5; 160 of 200 requests have no value, "
            "so it could be 0.2 at the worst of those that were asked."
        ),
    )
    assert status({"metric": "anls", "min_value": 0.2}, other=few) == "passed"
    assert status({"metric": "anls", "max_value": 1}, other=few) == "passed"
    unbounded = whole(value=0.1, lower=None, upper=None, without=1)
    assert "nobody can say how far" in run({"metric": "anls", "max_value": 0.5}, other=unbounded)[0].message
    ended_early = replace(few, counts={**SIDE.counts, "missing": 1})
    assert status({"metric": "anls", "min_value": 0.1}, other=ended_early) == "inconclusive"


def test_no_value_meets_no_limit() -> None:
    (found,) = run({"metric": "anls", "min_value": 0}, other=whole(value=None))
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
    late = replace(SIDE, headline={**SIDE.headline, "validity": "invalid", "peak_memory_bytes": 7})
    (found,) = run({"speed": "latency_p50_ms", "max_increase": 1}, other=late)
    assert (found.status, found.message) == (
        "inconclusive",
        "A run's speeds are INVALID as a measurement; its report says why.",
    )
    known = replace(SIDE, headline={**SIDE.headline, "peak_memory_bytes": 7})
    assert status({"speed": "peak_memory_bytes", "max_increase": 0}, baseline=known, other=late) == "passed"
    engine, gpu = (
        replace(known, headline={**known.headline, "peak_memory_of": of}) for of in ("engine", "accelerators")
    )
    (found,) = run({"speed": "peak_memory_bytes", "max_increase": 0}, baseline=engine, other=gpu)
    assert (found.status, found.message) == (
        "inconclusive",
        "One peak of memory is of the engine, the other of the accelerators.",
    )
    broken = replace(SIDE, is_interrupted=True)
    assert status({"speed": "latency_p50_ms", "max_increase": 1}, other=broken) == "inconclusive"


def test_speeds_under_another_load_or_on_other_samples_decide_nothing() -> None:
    rule = {"speed": "latency_p50_ms", "max_increase": 1}
    busier = replace(MEASUREMENT, scenario=ScenarioSpec(in_flight=8, name="mine"), manifest_id="other")
    (found,) = run(rule, other=replace(SIDE, measurement=busier))
    assert (found.status, found.message) == ("inconclusive", "The runs differ in their samples, scenario.in_flight.")
    one, alone, mine = (
        replace(SIDE, measurement=replace(MEASUREMENT, scenario=scenario))
        for scenario in (
            *(ScenarioSpec(kind="single_stream", in_flight=n) for n in (1, 4)),
            ScenarioSpec(in_flight=4, name="mine", seed=3),
        )
    )
    assert status(rule, other=mine) == "passed"
    assert status(rule, baseline=one, other=alone) == "passed"


def test_speeds_of_two_kinds_of_machine_decide_nothing() -> None:
    rule = {"speed": "latency_p50_ms", "max_increase": 1}
    larger = replace(SIDE, measurement=replace(MEASUREMENT, machines=frozenset({"CPU, 128 threads, GPU"})))
    (found,) = run(rule, other=larger)
    assert (found.status, found.message) == ("inconclusive", "The runs differ in their machines.")
    nobody_knows = replace(SIDE, measurement=replace(MEASUREMENT, machines=frozenset()))
    assert status(rule, other=nobody_knows) == "passed"


def test_a_share_of_the_requests_may_be_lost() -> None:
    (found,) = run({"share": "truncated", "max": 0.01})
    assert (found.status, found.message) == ("passed", "2 of 200 requests (1.00%); at most 1.00%.")
    assert status({"share": "truncated", "max": 0.009}) == "failed"
    nothing = replace(SIDE, counts={"requested": 0, "truncated": 0})
    assert status({"share": "truncated", "max": 0.5}, other=nothing) == "failed"


def test_a_share_of_answers_that_cannot_be_read_is_that_of_the_worst_metric_or_of_a_named_one() -> None:
    worse = replace(WHOLE, lost={"unscored": 0, "invalid": 50})
    other = replace(SIDE, metrics={"anls": WHOLE, "field_f1": worse})
    (found,) = run({"share": "invalid", "max": 0.02}, other=other)
    assert (found.rule, found.status) == ("share of invalid by field_f1", "failed")
    assert status({"share": "invalid", "metric": "anls", "max": 0.02}, other=other) == "passed"
    (found,) = run({"share": "unscored", "metric": "cer", "max": 1}, other=other)
    assert (found.status, found.message) == ("failed", "The run has no such metric; it has anls, field_f1.")
    assert status({"share": "invalid", "max": 1}, other=replace(SIDE, metrics={})) == "failed"


def test_what_must_be_the_same_is_named_where_it_is_not() -> None:
    other = replace(SIDE, spec={"dataset": {"name": "d", "seed": 2}, "prompt": "p"})
    found = run({"same": ["dataset", "prompt"]}, other=other)
    assert [(one.status, one.message) for one in found] == [
        ("failed", "It differs in dataset.seed."),
        ("passed", "It is the same."),
    ]


def test_how_imported_answers_were_asked_is_the_same_only_where_their_files_say_so() -> None:
    def imported(**decoding: float) -> Side:
        target = {"kind": "import", "decoding": decoding}
        return replace(SIDE, spec={"target": target, "decoding": {"max_tokens": 256}, "dataset": "d"})

    def statuses(baseline: Side, other: Side) -> list[str]:
        policy = GatePolicy.model_validate({"rules": [{"same": ["decoding", "prompt", "dataset"]}]})
        return [one.status for one in check(policy, baseline=baseline, other=other, deltas={})]

    assert statuses(imported(temperature=0.0), imported(temperature=0.0)) == ["passed", "inconclusive", "passed"]
    assert statuses(imported(temperature=0.0), imported(temperature=1.5))[0] == "failed"
    assert statuses(imported(), imported()) == ["inconclusive", "inconclusive", "passed"]
    assert statuses(replace(SIDE, spec={"decoding": {"temperature": 0.0}}), imported(temperature=0.0))[0] == "passed"


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
        {"share": "missing", "metric": "anls", "max": 1},
        {"same": []},
        {"metric": "anls", "max_drop": -1},
        {"metric": "anls", "max_drop": 0, "odd": 1},
        {"metric": "anls", "min_value": float("nan")},
    ],
)
def test_a_rule_that_means_nothing_is_refused(rule: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        GatePolicy.model_validate({"rules": [rule]})


def test_a_cost_decides_only_where_both_are_known_in_one_currency() -> None:
    rule = {"speed": "cost_per_answer", "max_increase": 0.1}

    def costing(amount: float | None, currency: str = "EUR") -> Side:
        said = {"cost_total": amount, "cost_per_answer": amount, "cost_currency": currency}
        return replace(SIDE, headline={**SIDE.headline, **said})

    assert status(rule, baseline=costing(1.0), other=costing(1.05)) == "passed"
    assert status(rule, baseline=costing(1.0), other=costing(1.2)) == "failed"
    assert status(rule, baseline=costing(1.0), other=costing(1.0, "USD")) == "inconclusive"
    assert status(rule, baseline=costing(1.0), other=costing(None)) == "inconclusive"


def test_a_baseline_of_0_is_measured_and_has_no_relative_change() -> None:
    rule = {"speed": "latency_p50_ms", "max_increase": 1}
    (zero, unknown) = (replace(SIDE, headline={**SIDE.headline, "latency_p50_ms": before}) for before in (0, None))
    (of_zero,), (of_unknown,) = (run(rule, baseline=baseline) for baseline in (zero, unknown))
    assert (of_zero.status, of_unknown.status) == ("inconclusive", "inconclusive")
    assert "is 0" in of_zero.message
    assert "not measured" not in of_zero.message
    assert "not measured" in of_unknown.message
    assert status(rule, other=zero) == "passed"
