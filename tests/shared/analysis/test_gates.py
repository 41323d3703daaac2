"""Gates: which runs pass, which fail, and which have too few samples to decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from pydantic import ValidationError

from tests.support.wording import Wording
from vlmhyperbench.analysis.comparison import Delta, Verdict
from vlmhyperbench.analysis.gate_policy import GatePolicy
from vlmhyperbench.analysis.gates import Check, Side, WholeRun, check, is_met
from vlmhyperbench.analysis.parity import Divergence, Parity
from vlmhyperbench.domain.identity import Measurement, variables_of
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
    verdict=Verdict.NOT_SHOWN,
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


NO_PARITY = Parity(pairs=0, divergences=())


def run(
    rule: dict[str, object],
    *,
    delta: Delta = DELTA,
    baseline: Side = SIDE,
    other: Side = SIDE,
    parity: Parity = NO_PARITY,
) -> list[Check]:
    policy = GatePolicy.model_validate({"rules": [rule]})
    return check(policy, baseline=baseline, other=other, deltas={"anls": delta}, parity=parity)


def status(rule: dict[str, object], **options: object) -> str:
    (result,) = run(rule, **options)
    return result.status


@pytest.mark.parametrize(("limit", "expected"), [(0.02, "passed"), (0.01, "inconclusive"), (0.0, "inconclusive")])
def test_a_drop_passes_only_where_its_whole_interval_is_within_the_margin(limit: float, expected: str) -> None:
    assert status({"metric": "anls", "max_drop": limit}) == expected


def test_a_drop_fails_where_its_whole_interval_is_beyond_the_margin(wording: Wording) -> None:
    worse = replace(DELTA, difference=-0.1, low=-0.15, high=-0.05)
    (result,) = run({"metric": "anls", "max_drop": 0.04}, delta=worse)
    assert result.status == "failed"
    wording(result.message)


def test_a_rise_of_an_error_rate_is_a_drop() -> None:
    rate = replace(DELTA, direction="lower", difference=0.1, low=0.05, high=0.15)
    assert status({"metric": "anls", "max_drop": 0.04}, delta=rate) == "failed"
    assert status({"metric": "anls", "max_drop": 0.15}, delta=rate) == "passed"


@pytest.mark.parametrize(
    ("units", "limit", "expected"),
    [(1, 0.3, "inconclusive"), (1, 0.975, "passed"), (100, 0.03, "inconclusive"), (100, 0.0363, "passed")],
)
def test_without_variance_the_result_depends_on_the_number_of_documents(
    units: int, limit: float, expected: str, wording: Wording
) -> None:
    same = replace(DELTA, difference=0.0, low=None, high=None, units=units)
    (result,) = run({"metric": "anls", "max_drop": limit}, delta=same)
    assert result.status == expected
    wording(result.message)
    (better,) = run({"metric": "anls", "max_drop": limit}, delta=replace(same, difference=0.1))
    wording(better.message)


def test_answers_without_a_pair_count_with_their_worst_and_best_possible_values(wording: Wording) -> None:
    lost = replace(DELTA, pairs=198, lost=2)
    (result,) = run({"metric": "anls", "max_drop": 0.02}, delta=lost)
    assert result.status == "inconclusive"
    wording(result.message)
    assert status({"metric": "anls", "max_drop": 0.04}, delta=lost) == "passed"
    assert status({"metric": "anls", "max_drop": 9}, delta=replace(lost, is_bounded=False)) == "inconclusive"
    ended_early = replace(SIDE, counts={**SIDE.counts, "missing": 100})
    few = replace(DELTA, pairs=90, lost=10)
    (result,) = run({"metric": "anls", "max_drop": 0.04}, delta=few, baseline=ended_early, other=ended_early)
    assert result.status == "inconclusive"
    wording(result.message)


def test_samples_that_a_stop_rule_did_not_ask_are_not_lost() -> None:
    stopped = replace(SIDE, counts={**SIDE.counts, "requested": 100}, is_stopped=True)
    few = replace(DELTA, pairs=100, lost=100)
    assert status({"metric": "anls", "max_drop": 0.04}, delta=few, other=stopped) == "passed"
    fewer = replace(few, pairs=90, lost=110)
    assert status({"metric": "anls", "max_drop": 0.04}, delta=fewer, other=stopped) == "inconclusive"


def test_answers_that_cannot_be_paired_fail() -> None:
    assert status({"metric": "anls", "max_drop": 1}, delta=replace(DELTA, difference=None)) == "failed"


def test_a_drop_of_a_metric_without_a_difference_between_the_runs_fails() -> None:
    policy = GatePolicy.model_validate({"rules": [{"metric": "anls", "max_drop": 1}]})
    (result,) = check(policy, baseline=SIDE, other=SIDE, deltas={}, parity=NO_PARITY)
    assert (result.rule, result.status) == ("anls max_drop", "failed")


def test_a_metric_without_a_direction_has_no_drop() -> None:
    assert status({"metric": "anls", "max_drop": 1}, delta=replace(DELTA, direction=None)) == "inconclusive"


def test_a_metric_that_the_run_does_not_have_fails_and_its_metrics_are_named(wording: Wording) -> None:
    (result,) = run({"metric": "cer", "max_drop": 1})
    assert result.status == "failed"
    wording(result.message)


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


def test_a_limit_applies_to_all_answers_of_the_run_not_only_to_the_paired_ones() -> None:
    assert DELTA.other == 0.89
    assert status({"metric": "anls", "min_value": 0.89}, other=whole(value=0.5)) == "failed"


def whole(**changes: object) -> Side:
    return replace(SIDE, metrics={"anls": replace(WHOLE, **changes)})


def test_a_value_over_few_answers_passes_only_where_the_others_could_not_change_the_result(wording: Wording) -> None:
    few = whole(value=1.0, lower=0.2, upper=1.0, without=160)
    (result,) = run({"metric": "anls", "min_value": 0.5}, other=few)
    assert result.status == "inconclusive"
    wording(result.message)
    assert status({"metric": "anls", "min_value": 0.2}, other=few) == "passed"
    assert status({"metric": "anls", "max_value": 1}, other=few) == "passed"
    unbounded = whole(value=0.1, lower=None, upper=None, without=1)
    wording(run({"metric": "anls", "max_value": 0.5}, other=unbounded)[0].message)
    ended_early = replace(few, counts={**SIDE.counts, "missing": 1})
    assert status({"metric": "anls", "min_value": 0.1}, other=ended_early) == "inconclusive"


def test_a_metric_without_a_value_meets_no_limit(wording: Wording) -> None:
    (result,) = run({"metric": "anls", "min_value": 0}, other=whole(value=None))
    assert result.status == "failed"
    wording(result.message)


def test_one_rule_may_have_several_limits() -> None:
    results = run({"metric": "anls", "max_drop": 0.02, "min_value": 0.5, "max_value": 0.5})
    assert [(result.rule, result.status) for result in results] == [
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


def test_a_speed_that_is_no_valid_measurement_decides_nothing(wording: Wording) -> None:
    assert status({"speed": "peak_memory_bytes", "max_increase": 0}) == "inconclusive"
    late = replace(SIDE, headline={**SIDE.headline, "validity": "invalid", "peak_memory_bytes": 7})
    (result,) = run({"speed": "latency_p50_ms", "max_increase": 1}, other=late)
    assert result.status == "inconclusive"
    wording(result.message)
    known = replace(SIDE, headline={**SIDE.headline, "peak_memory_bytes": 7})
    assert status({"speed": "peak_memory_bytes", "max_increase": 0}, baseline=known, other=late) == "passed"
    engine, gpu = (
        replace(known, headline={**known.headline, "peak_memory_of": of}) for of in ("engine", "accelerators")
    )
    (result,) = run({"speed": "peak_memory_bytes", "max_increase": 0}, baseline=engine, other=gpu)
    assert result.status == "inconclusive"
    wording(result.message)
    broken = replace(SIDE, is_interrupted=True)
    assert status({"speed": "latency_p50_ms", "max_increase": 1}, other=broken) == "inconclusive"


def test_speeds_under_another_load_or_on_other_samples_decide_nothing(wording: Wording) -> None:
    rule = {"speed": "latency_p50_ms", "max_increase": 1}
    busier = replace(MEASUREMENT, scenario=ScenarioSpec(in_flight=8, name="mine"), manifest_id="other")
    (result,) = run(rule, other=replace(SIDE, measurement=busier))
    assert result.status == "inconclusive"
    wording(result.message)
    one_in_flight, four_in_flight, named = (
        replace(SIDE, measurement=replace(MEASUREMENT, scenario=scenario))
        for scenario in (
            *(ScenarioSpec(kind="single_stream", in_flight=n) for n in (1, 4)),
            ScenarioSpec(in_flight=4, name="mine", seed=3),
        )
    )
    assert status(rule, other=named) == "passed"
    assert status(rule, baseline=one_in_flight, other=four_in_flight) == "passed"


def test_speeds_of_two_kinds_of_machine_decide_nothing(wording: Wording) -> None:
    rule = {"speed": "latency_p50_ms", "max_increase": 1}
    larger = replace(SIDE, measurement=replace(MEASUREMENT, machines=frozenset({"CPU, 128 threads, GPU"})))
    (result,) = run(rule, other=larger)
    assert result.status == "inconclusive"
    wording(result.message)
    unknown = replace(SIDE, measurement=replace(MEASUREMENT, machines=frozenset()))
    assert status(rule, other=unknown) == "passed"


def test_speeds_of_engines_with_other_settings_of_their_workers_decide_nothing(wording: Wording) -> None:
    rule = {"speed": "latency_p50_ms", "max_increase": 1}

    def measured(*engines: Mapping[str, object]) -> Side:
        return replace(SIDE, measurement=replace(MEASUREMENT, variables=variables_of(engines)))

    one, two = ({"argv": ["engine"], "variables": {"OMP_NUM_THREADS": number, "A": "1"}} for number in "12")
    for other in (measured(two), measured(one, two)):
        (result,) = run(rule, baseline=measured(one), other=other)
        assert result.status == "inconclusive"
        wording(result.message)
    none, endpoint, older = {"argv": ["engine"], "variables": {}}, {"argv": [], "variables": {}}, {"argv": ["engine"]}
    (result,) = run(rule, baseline=measured(one), other=measured(one, none))
    assert result.status == "inconclusive"
    for other in (measured(one), measured(endpoint), measured(older)):
        assert status(rule, baseline=measured(one), other=other) == "passed"


def test_a_share_of_the_requests_may_be_lost(wording: Wording) -> None:
    (result,) = run({"share": "truncated", "max": 0.01})
    assert result.status == "passed"
    wording(result.message)
    assert status({"share": "truncated", "max": 0.009}) == "failed"
    nothing = replace(SIDE, counts={"requested": 0, "truncated": 0})
    assert status({"share": "truncated", "max": 0.5}, other=nothing) == "failed"


def test_a_share_that_is_not_known_keeps_no_limit(wording: Wording) -> None:
    unknown = replace(SIDE, counts={**SIDE.counts, "answered": 200})
    (result,) = run({"share": "truncated", "max": 1}, other=unknown)
    assert result.status == "failed"
    wording(result.message)
    known = replace(SIDE, counts={**unknown.counts, "truncation_rate": 0.01})
    assert status({"share": "truncated", "max": 0.01}, other=known) == "passed"


def test_a_share_of_invalid_answers_is_that_of_the_worst_metric_or_of_a_named_metric(wording: Wording) -> None:
    worse = replace(WHOLE, lost={"unscored": 0, "invalid": 50})
    other = replace(SIDE, metrics={"anls": WHOLE, "field_f1": worse})
    (result,) = run({"share": "invalid", "max": 0.02}, other=other)
    assert result.status == "failed"
    wording(result.rule)
    assert status({"share": "invalid", "metric": "anls", "max": 0.02}, other=other) == "passed"
    (result,) = run({"share": "unscored", "metric": "cer", "max": 1}, other=other)
    assert result.status == "failed"
    wording(result.message)
    assert status({"share": "invalid", "max": 1}, other=replace(SIDE, metrics={})) == "failed"


def test_parts_that_must_be_the_same_are_named_where_they_differ(wording: Wording) -> None:
    other = replace(SIDE, spec={"dataset": {"name": "d", "seed": 2}, "prompt": "p"})
    results = run({"same": ["dataset", "prompt"]}, other=other)
    assert [result.status for result in results] == ["failed", "passed"]
    for result in results:
        wording(result.message)


def test_parts_of_imported_runs_are_the_same_only_where_their_files_record_them() -> None:
    def imported(**decoding: float) -> Side:
        target = {"kind": "import", "decoding": decoding}
        return replace(SIDE, spec={"target": target, "decoding": {"max_tokens": 256}, "dataset": "d"})

    def statuses(baseline: Side, other: Side) -> list[str]:
        policy = GatePolicy.model_validate({"rules": [{"same": ["decoding", "prompt", "dataset"]}]})
        return [result.status for result in check(policy, baseline=baseline, other=other, deltas={}, parity=NO_PARITY)]

    assert statuses(imported(temperature=0.0), imported(temperature=0.0)) == ["passed", "inconclusive", "passed"]
    assert statuses(imported(temperature=0.0), imported(temperature=1.5))[0] == "failed"
    assert statuses(imported(), imported()) == ["inconclusive", "inconclusive", "passed"]
    assert statuses(replace(SIDE, spec={"decoding": {"temperature": 0.0}}), imported(temperature=0.0))[0] == "passed"


def test_a_share_of_equal_texts_counts_every_question_that_was_asked(wording: Wording) -> None:
    other = Divergence(key="k", repeat=0, at_word=1, baseline="a", other="b", changes_score=False)
    for divergences, pairs, expected in ((2, 200, "passed"), (3, 200, "failed"), (0, 197, "failed")):
        parity = Parity(pairs=pairs, divergences=(other,) * divergences)
        (result,) = run({"parity": "same_text", "min": 0.99}, parity=parity)
        assert (result.rule, result.status) == ("same text", expected)
    wording(result.message)
    nothing = replace(SIDE, counts={"requested": 0})
    assert status({"parity": "same_text", "min": 0.5}, baseline=nothing) == "failed"


def test_a_rule_is_for_the_runs_that_it_names() -> None:
    named = replace(SIDE, headline={"name": "Q8"})
    rule = {"metric": "anls", "min_value": 0.95}
    assert status({**rule, "runs": ["F16", "Q8"]}, other=named) == "failed"
    assert run({**rule, "runs": ["F16"]}, other=named) == []


def test_the_policy_decides_whether_an_inconclusive_rule_passes() -> None:
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
def test_a_rule_without_an_effect_is_refused(rule: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        GatePolicy.model_validate({"rules": [rule]})


def test_a_cost_decides_only_where_both_costs_are_known_in_one_currency() -> None:
    rule = {"speed": "cost_per_answer", "max_increase": 0.1}

    def costing(amount: float | None, currency: str = "EUR") -> Side:
        costs = {"cost_total": amount, "cost_per_answer": amount, "cost_currency": currency}
        return replace(SIDE, headline={**SIDE.headline, **costs})

    assert status(rule, baseline=costing(1.0), other=costing(1.05)) == "passed"
    assert status(rule, baseline=costing(1.0), other=costing(1.2)) == "failed"
    assert status(rule, baseline=costing(1.0), other=costing(1.0, "USD")) == "inconclusive"
    assert status(rule, baseline=costing(1.0), other=costing(None)) == "inconclusive"


def test_a_baseline_of_0_is_measured_and_has_no_relative_change(wording: Wording) -> None:
    rule = {"speed": "latency_p50_ms", "max_increase": 1}
    (zero, unknown) = (replace(SIDE, headline={**SIDE.headline, "latency_p50_ms": before}) for before in (0, None))
    (of_zero,), (of_unknown,) = (run(rule, baseline=baseline) for baseline in (zero, unknown))
    assert (of_zero.status, of_unknown.status) == ("inconclusive", "inconclusive")
    wording(of_zero.message)
    wording(of_unknown.message)
    assert status(rule, other=zero) == "passed"
