"""Names of limits: their time and their percentile."""

from __future__ import annotations

import pytest

from vlmhyperbench.domain.slo import slo_metric, slo_percent
from vlmhyperbench_sdk.errors import InvalidInput


def test_a_limit_without_a_percentile_is_on_p99() -> None:
    assert (slo_percent("ttft"), slo_percent("ttft_p90"), slo_percent("latency_p5")) == (99, 90, 5)
    assert (slo_metric("ttft"), slo_metric("itl_p90")) == ("ttft", "itl")


@pytest.mark.parametrize("name", ["", "speed", "speed_p99", "ttft_", "ttft_p", "ttft_mean", "ttft_p0", "ttft_p100"])
def test_any_other_name_is_refused(name: str) -> None:
    for read in (slo_metric, slo_percent):
        with pytest.raises(InvalidInput):
            read(name)
