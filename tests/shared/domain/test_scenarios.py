"""Scenarios: what an SLO may bound is what is measured."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from vlmhyperbench.domain.scenarios import ArrivalSpec, ScenarioSpec, Slo
from vlmhyperbench.domain.slo import SLO_METRICS, slo_percent


def test_every_measured_time_can_be_bounded() -> None:
    names = [*SLO_METRICS, *(f"{metric}_p{percent}" for metric in SLO_METRICS for percent in (1, 50, 99))]
    assert list(Slo(limits_ms=dict.fromkeys(names, 5.0)).limits_ms) == names
    assert [slo_percent(name) for name in names[4:7]] == [1, 50, 99]


@pytest.mark.parametrize("name", ["tttf", "ttft_p0", "ttft_p100", "ttft_", "p99", "queue"])
def test_what_is_not_measured_cannot(name: str) -> None:
    with pytest.raises(ValidationError, match=f"'{name}' is no limit"):
        ScenarioSpec(slo=Slo(limits_ms={name: 5.0}))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "server"}, "a server scenario needs arrivals"),
        ({"kind": "single_stream", "arrivals": {"rate_per_s": 1}}, "has no arrivals; server has"),
        ({"kind": "single_stream", "baseline_requests": 3}, "has no streams to compare with a baseline"),
        ({"kind": "interactive"}, "has turns"),
        ({"kind": "offline", "think_s": 1}, "has turns"),
        ({"kind": "offline", "requests": 3}, "offline asks every sample once"),
        ({"kind": "multi_stream", "duration_s": 3}, "only server has a duration_s"),
        ({"kind": "server", "arrivals": {"rate_per_s": 1}, "requests": 3, "duration_s": 3}, "in place of requests"),
        ({"kind": "server", "arrivals": {"rate_per_s": 1000}, "duration_s": 5000}, "5,000,000 requests are more than"),
        ({"kind": "server", "arrivals": {"rate_per_s": 1, "process": "ramp"}}, "has the rate at its end"),
        ({"kind": "server", "arrivals": {"rate_per_s": 1, "last_rate_per_s": 2}}, "has the rate at its end"),
    ],
)
def test_what_does_not_go_together_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ScenarioSpec.model_validate(fields)


def test_a_ramp_is_bounded_at_its_mean_rate_and_names_both_ends() -> None:
    ramp = ArrivalSpec(process="ramp", rate_per_s=2, last_rate_per_s=4)
    scenario = ScenarioSpec(kind="server", arrivals=ramp, duration_s=60)
    assert (ramp.mean_rate_per_s, scenario.bound) == (3, 180)
    assert scenario.in_words == "an open loop with ramp arrivals at 2 to 4 requests per second"
