"""Scenarios: the limits of an SLO are on measured times, and fields that exclude each other are refused."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.support.wording import Wording
from vlmhyperbench.domain.scenarios import ArrivalSpec, ScenarioSpec, Slo
from vlmhyperbench.domain.schedules import instants_of
from vlmhyperbench.domain.slo import SLO_METRICS, slo_percent
from vlmhyperbench.errors import pydantic_message


def test_every_measured_time_can_be_bounded() -> None:
    names = [*SLO_METRICS, *(f"{metric}_p{percent}" for metric in SLO_METRICS for percent in (1, 50, 99))]
    assert list(Slo(limits_ms=dict.fromkeys(names, 5.0)).limits_ms) == names
    assert [slo_percent(name) for name in names[4:7]] == [1, 50, 99]


@pytest.mark.parametrize("name", ["tttf", "ttft_p0", "ttft_p100", "ttft_", "p99", "queue"])
def test_a_time_that_is_not_measured_cannot_be_bounded(name: str) -> None:
    with pytest.raises(ValidationError, match=f"'{name}'") as refused:
        ScenarioSpec(slo=Slo(limits_ms={name: 5.0}))
    (error,) = refused.value.errors()
    assert error["loc"] == ("limits_ms",)


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "server"},
        {"kind": "single_stream", "arrivals": {"rate_per_s": 1}},
        {"kind": "single_stream", "baseline_requests": 3},
        {"kind": "interactive"},
        {"kind": "offline", "think_s": 1},
        {"kind": "multi_stream", "duration_s": 3},
        {"kind": "server", "arrivals": {"rate_per_s": 1}, "requests": 3, "duration_s": 3},
        {"kind": "server", "arrivals": {"rate_per_s": 1000}, "duration_s": 5000},
        {"kind": "server", "arrivals": {"rate_per_s": 1, "process": "ramp"}},
        {"kind": "server", "arrivals": {"rate_per_s": 1, "last_rate_per_s": 2}},
        {"kind": "server", "arrivals": {"rate_per_s": 1, "process": "trace"}},
        {"kind": "server", "arrivals": {"rate_per_s": 1, "times_s": [0]}},
        {"kind": "server", "arrivals": {"rate_per_s": 1, "process": "trace", "times_s": [0, 2, 1]}},
        {"kind": "server", "arrivals": {"rate_per_s": 1, "process": "trace", "times_s": [0], "output_tokens": [1, 2]}},
        {"kind": "server", "arrivals": {"rate_per_s": 1, "process": "trace", "times_s": [0]}, "requests": 3},
        {"kind": "offline", "preset": "official"},
        {"kind": "multi_stream", "preset": "official", "in_flight": 4},
        {"kind": "interactive", "turns": 2, "arrivals": {"rate_per_s": 1, "process": "trace", "times_s": [0]}},
        {"kind": "interactive", "turns": 2, "arrivals": {"rate_per_s": 100}, "duration_s": 60},
    ],
)
def test_fields_that_exclude_each_other_are_refused(fields: dict[str, object], wording: Wording) -> None:
    with pytest.raises(ValidationError) as refused:
        ScenarioSpec.model_validate(fields)
    for error in refused.value.errors():
        wording(f"{pydantic_message(error)}. {error['ctx']['error'].cure}")


def test_a_ramp_is_bounded_at_its_mean_rate_and_names_both_ends(wording: Wording) -> None:
    ramp = ArrivalSpec(process="ramp", rate_per_s=2, last_rate_per_s=4)
    scenario = ScenarioSpec(kind="server", arrivals=ramp, duration_s=60)
    assert (ramp.mean_rate_per_s, scenario.bound) == (3, 180)
    wording(scenario.in_words)


def test_an_offline_scenario_with_requests_is_timed_as_a_whole() -> None:
    assert not ScenarioSpec(kind="offline").is_timed
    assert ScenarioSpec(kind="offline", requests=24_576, preset="official").is_timed


def test_conversations_that_arrive_have_all_their_turns_in_the_bound(wording: Wording) -> None:
    arrivals = ArrivalSpec(rate_per_s=2)
    talks = ScenarioSpec(kind="interactive", turns=3, think_s=1, arrivals=arrivals, duration_s=10)
    assert talks.bound == 60
    wording(talks.in_words)


def test_a_trace_has_its_own_number_of_requests_and_instants(wording: Wording) -> None:
    trace = ArrivalSpec(process="trace", rate_per_s=1, times_s=(0.0, 0.5, 3.0), output_tokens=(None, 7, None))
    scenario = ScenarioSpec(kind="server", arrivals=trace)
    assert scenario.bound == 3
    assert instants_of(trace, count=2, seed=0).tolist() == [0, 500_000_000]
    wording(scenario.in_words)


def test_drawn_instants_are_those_of_the_process() -> None:
    even = ArrivalSpec(process="constant", rate_per_s=4)
    assert instants_of(even, count=3, seed=0).tolist() == [0, 250_000_000, 500_000_000]


def test_what_only_traces_and_presets_have_is_no_part_of_other_digests() -> None:
    plain = ScenarioSpec(kind="server", arrivals=ArrivalSpec(rate_per_s=1)).model_dump(mode="json")
    assert "preset" not in plain
    assert not {"times_s", "output_tokens"} & plain["arrivals"].keys()
