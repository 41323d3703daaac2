"""What the engine used: summed over claims, and unknown where a claim did not record it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.shared.reports.builders import evidence, performance_of
from tests.shared.reports.test_resources import FIRST, NEXT, ROWS, SAMPLED


def test_two_claims_on_one_machine_at_a_time_have_no_energy_of_their_own() -> None:
    for started_at, energy_j in ((FIRST.started_at, None), (NEXT.started_at, 600.0)):
        resources = performance_of(evidence(ROWS, claims=[FIRST, replace(NEXT, started_at=started_at)])).resources
        assert resources is not None
        assert resources.energy_j == energy_j
    apart = performance_of(evidence(ROWS, claims=[FIRST, replace(NEXT, started_at=FIRST.started_at, host="other")]))
    assert apart.resources is not None
    assert apart.resources.energy_j == 600.0


def test_a_claim_is_weighted_by_its_number_of_samples() -> None:
    short = replace(NEXT, resources=SAMPLED | {"samples": 60, "accelerator_util_percent_mean": 9.0})
    resources = performance_of(evidence(ROWS, claims=[FIRST, short])).resources
    assert resources is not None
    assert resources.accelerator_share == pytest.approx((600 * 0.75 + 60 * 0.09) / 660)


def test_a_claim_without_samples_has_a_coverage_of_0() -> None:
    resources = performance_of(evidence(ROWS, claims=[FIRST, replace(NEXT, resources=None)])).resources
    assert resources is not None
    assert resources.coverage == 0.0


def test_energy_that_one_claim_did_not_sample_is_unknown() -> None:
    unsampled = replace(NEXT, resources={"engine_rss_bytes_peak": 2**30})
    resources = performance_of(evidence(ROWS, claims=[FIRST, unsampled])).resources
    assert resources is not None
    assert (resources.energy_j, resources.power_w, resources.engine_memory_bytes) == (None, None, 3 * 2**30)
