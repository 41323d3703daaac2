"""The search for the largest rate: it narrows down, ends, and never reports more than the probes show."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.analysis.rate_search import Probe, certainty_of_probe, conclude, next_rate
from vlmhyperbench_sdk.errors import InvalidInput


def search(truth: float, *, first: float = 1.0, max_per_s: float = 1e5, probes: int = 10) -> list[Probe]:
    """Probe a server that keeps its limits up to a rate."""
    tried: list[Probe] = []
    while (rate := next_rate(tried, first_per_s=first, max_per_s=max_per_s, max_probes=probes)) is not None:
        tried.append(Probe(rate_per_s=rate, passed=rate <= truth))
    return tried


def test_the_search_doubles_until_a_rate_fails_and_then_halves_the_ratio() -> None:
    tried = search(10.0)
    assert [round(probe.rate_per_s, 2) for probe in tried] == [1, 2, 4, 8, 16, 11.31, 9.51, 10.37, 9.93]
    result = conclude(tried)
    assert result.is_reached
    assert result.passed_per_s == pytest.approx(9.93, abs=0.01)
    assert result.failed_per_s == pytest.approx(10.37, abs=0.01)


def test_the_search_halves_where_the_first_rate_fails() -> None:
    tried = search(3.0, first=16.0)
    assert [probe.rate_per_s for probe in tried][:4] == [16.0, 8.0, 4.0, 2.0]
    assert conclude(tried).passed_per_s == pytest.approx(3.0, rel=0.06)


def test_without_a_passed_probe_no_rate_is_reached() -> None:
    result = conclude(search(0.0, probes=4))
    assert (result.is_reached, result.passed_per_s, result.failed_per_s) == (False, None, 0.125)
    assert len(result.probes) == 4


def test_the_search_does_not_halve_below_the_smallest_rate() -> None:
    probes = [Probe(rate_per_s=4.0, passed=False)]
    assert next_rate(probes, first_per_s=4.0, max_per_s=9.0, min_per_s=2.0) == 2.0
    assert next_rate(probes, first_per_s=4.0, max_per_s=9.0, min_per_s=2.1) is None


def test_without_a_failed_probe_there_is_no_upper_end() -> None:
    result = conclude(search(1e9, max_per_s=6.0))
    assert [probe.rate_per_s for probe in result.probes] == [1.0, 2.0, 4.0, 6.0]
    assert (result.passed_per_s, result.failed_per_s) == (6.0, None)


def test_a_first_rate_above_the_largest_is_lowered() -> None:
    assert next_rate([], first_per_s=10.0, max_per_s=4.0) == 4.0


def test_a_pass_above_a_failure_does_not_count() -> None:
    probes = [Probe(rate_per_s=8.0, passed=True), Probe(rate_per_s=4.0, passed=False)]
    result = conclude(probes)
    assert (result.passed_per_s, result.failed_per_s) == (None, 4.0)
    assert next_rate(probes, first_per_s=1.0, max_per_s=100.0) == 2.0


@given(st.floats(0.01, 1e4), st.floats(0.1, 1e3), st.integers(1, 30))
def test_the_answer_never_exceeds_the_truth_and_brackets_it(truth: float, first: float, probes: int) -> None:
    tried = search(truth, first=first, probes=probes)
    result = conclude(tried)
    assert len(tried) <= probes
    assert (result.passed_per_s or 0.0) <= truth
    assert result.failed_per_s is None or result.failed_per_s > truth
    if len(tried) < probes:
        assert result.passed_per_s is not None
        assert result.failed_per_s is not None
        assert result.failed_per_s <= result.passed_per_s * 1.05


def test_all_probes_together_have_the_confidence_of_the_search() -> None:
    assert certainty_of_probe() == pytest.approx(0.995)
    assert certainty_of_probe(confidence=0.9, max_probes=20) == pytest.approx(0.995)
    for wrong in ({"max_probes": 0}, {"confidence": 0.0}):
        with pytest.raises(InvalidInput, match="probe"):
            certainty_of_probe(**wrong)
