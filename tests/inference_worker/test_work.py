"""What a job asks besides what it measures."""

from __future__ import annotations

import pytest

from tests.shared.reports.builders import run_spec
from vlmhyperbench.data.manifest import ManifestSample
from vlmhyperbench_inference_worker.work import Work

SAMPLES = [ManifestSample(index=i, key=str(i), question="q", error="gone" if i == 1 else None) for i in range(6)]


@pytest.mark.parametrize(
    ("measured", "count", "aside"),
    [
        pytest.param([0, 2, 3], 2, [4, 5], id="what-is-not-measured"),
        pytest.param([5, 4, 3, 2, 0], 2, [0, 2], id="else-what-is-measured-last"),
        pytest.param([0, 2, 3, 4], 3, [5, 4, 3], id="both"),
        pytest.param([0, 1, 2, 3, 4, 5, 6], 1, [0], id="a-second-repeat-is-the-same-sample"),
        pytest.param([0], 9, [2, 3, 4, 5, 0], id="never-more-than-there-are"),
    ],
)
def test_what_is_asked_aside_warms_no_cache_for_what_is_measured(
    measured: list[int], count: int, aside: list[int]
) -> None:
    work = Work(spec=run_spec(), samples=SAMPLES, missing=measured)
    assert work.aside(count, measured) == aside
