"""Limits of an SLO: met or not, with certainty or not."""

from __future__ import annotations

from vlmhyperbench.analysis.slo import check_limit


def test_44_requests_within_a_limit_certify_p90_and_43_do_not() -> None:
    many = check_limit("ttft_p90", 10.0, [10.0] * 44, failed=0)
    few = check_limit("ttft_p90", 10.0, [10.0] * 43, failed=0)
    assert (many.is_kept, many.is_certain, many.value_ms, many.over) == (True, True, 10.0, 0)
    assert (few.is_kept, few.is_certain) == (True, False)


def test_with_one_request_over_the_limit_64_are_needed() -> None:
    assert check_limit("ttft_p90", 10.0, [1.0] * 63 + [10.1], failed=0).is_certain
    assert not check_limit("ttft_p90", 10.0, [1.0] * 62 + [10.1], failed=0).is_certain


def test_a_failure_exceeds_every_limit() -> None:
    result = check_limit("latency", 1e9, [1.0] * 98, failed=2)
    assert (result.n, result.over, result.value_ms, result.is_kept, result.is_certain) == (100, 2, None, False, False)


def test_without_a_request_no_limit_is_met() -> None:
    result = check_limit("tpot", 5.0, [], failed=0)
    assert (result.n, result.is_kept, result.is_certain) == (0, False, False)
