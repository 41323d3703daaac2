"""What a job asks besides what it measures."""

from __future__ import annotations

import pytest

from tests.shared.reports.builders import run_spec
from vlmhyperbench.data.manifest import ManifestSample
from vlmhyperbench_inference_worker.work import Work

SAMPLES = [ManifestSample(index=i, key=str(i), question="q", error="gone" if i == 1 else None) for i in range(6)]


@pytest.mark.parametrize(
    ("measured", "count", "first", "then"),
    [
        pytest.param([0, 2, 3], 2, {4, 5}, set(), id="what-is-not-measured"),
        pytest.param([5, 4, 3, 2, 0], 5, set(), {0, 2, 3, 4, 5}, id="else-what-is"),
        pytest.param([0, 2, 3, 4], 5, {5}, {0, 2, 3, 4}, id="both"),
        pytest.param([0, 1, 2, 3, 4, 6], 1, {5}, set(), id="a-second-repeat-is-the-same-sample"),
        pytest.param([0], 9, {2, 3, 4, 5}, {0}, id="never-more-than-there-are"),
    ],
)
def test_what_counts_nowhere_warms_no_cache_for_what_is_measured(
    measured: list[int], count: int, first: set[int], then: set[int]
) -> None:
    work = Work(spec=run_spec(), samples=SAMPLES, missing=measured)
    drawn = work.draw_uncounted(count, measured)
    assert (set(drawn[: len(first)]), set(drawn[len(first) :])) == (first, then)
    assert len(drawn) == len(set(drawn))


def test_what_counts_nowhere_is_drawn_from_the_whole_data_set_and_the_same_again() -> None:
    samples = [ManifestSample(index=i, key=str(i), question="q") for i in range(100)]
    first, again = (Work(spec=run_spec(), samples=samples, missing=[]).draw_uncounted(20, range(100)) for _ in range(2))
    assert first == again
    assert min(first) < 25
    assert max(first) >= 75
