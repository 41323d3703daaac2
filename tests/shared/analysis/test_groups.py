"""Times by group, and how evenly streams were served."""

from __future__ import annotations

import numpy as np
import polars
import pytest

from tests.support.wording import Wording
from vlmhyperbench.analysis.groups import Fairness, fairness_of, groups_of, jain_index, size_bucket
from vlmhyperbench_sdk.errors import InvalidInput

MS, S = 1e6, 1_000_000_000


def test_each_group_is_described_separately() -> None:
    times = np.array([10, 20, 30, np.nan]) * MS
    first, second = groups_of(
        [1, 0, 1, 1], is_ok=[True, True, True, False], ttft_ns=times, tpot_ns=times / 10, latency_ns=times
    )
    assert (first.name, first.requests, first.ok, first.ttft_user_ms.p50) == ("0", 1, 1, 20.0)
    assert (second.name, second.requests, second.ok, second.latency_ms.max) == ("1", 3, 2, 30.0)
    assert (second.tpot_ms.n, second.tpot_ms.mean) == (2, 2.0)


def test_a_failed_request_adds_no_time_to_its_group() -> None:
    times = np.array([10.0, 99.0]) * MS
    (result,) = groups_of([0, 0], is_ok=[True, False], ttft_ns=times, tpot_ns=times, latency_ns=times)
    assert (result.requests, result.ok, result.latency_ms.max) == (2, 1, 10.0)


def test_groups_of_sizes_are_in_order_of_size() -> None:
    keys = [size_bucket(pixels) for pixels in (1920 * 1080, 512 * 512, 320 * 240, 10**8)]
    column = np.full(4, 5 * MS)
    result = groups_of(
        keys, is_ok=[True] * 4, ttft_ns=column, tpot_ns=column, latency_ns=column, name_of=lambda key: key[1]
    )
    assert [group.name for group in result] == ["up to 0.1 MP", "up to 0.5 MP", "up to 4 MP", "above 16 MP"]


def test_columns_of_different_lengths_are_refused(wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        groups_of([0], is_ok=[], ttft_ns=np.zeros(1), tpot_ns=np.zeros(1), latency_ns=np.zeros(1))
    wording(refused.value)


def test_jains_index_is_1_for_equal_shares_and_1_over_n_for_a_single_stream() -> None:
    assert jain_index([3.0, 3.0, 3.0]) == 1.0
    assert jain_index([5.0, 0.0, 0.0, 0.0]) == 0.25
    # (1 + 2 + 3)² / (3 · 14)
    assert jain_index([1.0, 2.0, 3.0]) == pytest.approx(36 / 42)
    assert jain_index([]) is None
    assert jain_index([0.0, 0.0]) is None


def fairness(
    streams: list[int], *, ends_s: list[int], tokens: list[float | None], is_ok: list[bool] | None = None
) -> Fairness | None:
    rows = {
        "stream": streams,
        "scheduled_ns": [0] * len(streams),
        "stream_end_ns": [end_s * S for end_s in ends_s],
        "completion_tokens": tokens,
    }
    return fairness_of(polars.DataFrame(rows), is_ok=np.array(is_ok or [True] * len(streams)))


def test_the_rate_of_each_stream_counts_over_its_own_time() -> None:
    # Stream 0 brings 2 requests and 20 tokens in 2 s, stream 1 as many in 4 s: rates of 2 to 1, (2+1)² / (2·5).
    result = fairness([0, 1, 0, 1], ends_s=[1, 2, 2, 4], tokens=[10.0] * 4)
    assert result == Fairness(streams=2, requests=pytest.approx(0.9), output_tokens=pytest.approx(0.9))


def test_a_failed_request_takes_time_and_adds_nothing_to_a_rate() -> None:
    result = fairness([0, 1], ends_s=[1, 1], tokens=[10.0, 10.0], is_ok=[True, False])
    assert result == Fairness(streams=2, requests=0.5, output_tokens=0.5)


def test_an_unknown_count_leaves_only_the_requests_to_compare() -> None:
    result = fairness([0, 1], ends_s=[1, 1], tokens=[None, 1.0])
    assert result == Fairness(streams=2, requests=1.0, output_tokens=None)


def test_one_stream_or_no_time_has_no_fairness() -> None:
    assert fairness([0, 0], ends_s=[1, 2], tokens=[1.0, 1.0]) is None
    assert fairness([0, 1], ends_s=[0, 2], tokens=[1.0, 1.0]) is None


def test_a_stream_without_a_success_has_a_rate_of_0_also_in_no_time() -> None:
    result = fairness([0, 1], ends_s=[0, 2], tokens=[None, 1.0], is_ok=[False, True])
    assert result == Fairness(streams=2, requests=0.5, output_tokens=0.5)
