"""Scenarios: what an SLO may bound is what is measured."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from vlmhyperbench.analysis.performance import SLO_METRICS, slo_percent
from vlmhyperbench.domain.scenarios import ScenarioSpec, Slo


def test_every_measured_time_can_be_bounded() -> None:
    names = [*SLO_METRICS, *(f"{metric}_p{percent}" for metric in SLO_METRICS for percent in (1, 50, 99))]
    assert list(Slo(limits_ms=dict.fromkeys(names, 5.0)).limits_ms) == names
    assert [slo_percent(name) for name in names[4:7]] == [1, 50, 99]


@pytest.mark.parametrize("name", ["tttf", "ttft_p0", "ttft_p100", "ttft_", "p99", "queue"])
def test_what_is_not_measured_cannot(name: str) -> None:
    with pytest.raises(ValidationError, match=f"'{name}' is no limit: write ttft, tpot, itl or latency"):
        ScenarioSpec(slo=Slo(limits_ms={name: 5.0}))
