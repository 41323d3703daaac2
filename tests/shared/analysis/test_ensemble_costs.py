"""Time by step along the critical path, and uplift for extra seconds and gigabytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vlmhyperbench.analysis.ensemble_costs import Costs, StepTimes, critical_path, waterfall


def times(stage: str, model: str, seconds: Sequence[float], *after: str, merges: bool = False) -> StepTimes:
    array = np.array(seconds, dtype=np.float64)
    return StepTimes(stage=stage, model=model, seconds=array, after=after, merges=merges)


STEPS = (
    times("read", "a", [1, 3]),
    times("read", "b", [2, 2]),
    times("read", "m", [0.5, 0.5], merges=True),
    times("read", "m", [0, 1], merges=True),
    times("check", "c", [1, 1], "read"),
    times("other", "d", [9, 1]),
)


def test_a_step_starts_when_the_slowest_one_that_it_needs_has_ended() -> None:
    assert [(bar.stage, bar.model, bar.start_s, bar.seconds, bar.end_s) for bar in waterfall(STEPS)] == [
        ("read", "a", 0, 2, 2),
        ("read", "b", 0, 2, 2),
        ("read", "m", 2, 0.5, 2.5),
        ("read", "m", 2.5, 0.5, 3),
        ("check", "c", 3, 1, 4),
        ("other", "d", 0, 5, 5),
    ]


def test_the_critical_path_is_found_sample_by_sample() -> None:
    assert critical_path(STEPS).tolist() == [9, 5.5]


def test_a_step_after_a_stage_in_which_only_pipelines_answer_waits_for_their_steps() -> None:
    bars = waterfall([times("read/p/see", "a", [2]), times("write", "w", [1], "read", "read/p/see")])
    assert [bar.start_s for bar in bars] == [0, 2]


def test_a_step_without_a_sample_takes_no_time() -> None:
    (bar,) = waterfall([times("read", "m", [], merges=True)])
    assert (bar.start_s, bar.seconds) == (0, 0)


def test_the_uplift_is_divided_by_what_is_extra() -> None:
    costs = Costs(seconds=3.0, best_seconds=1.0, bytes=5_000_000_000, best_bytes=1_000_000_000, uplift=0.1)
    assert (costs.extra_s, costs.extra_gb, costs.uplift_per_s, costs.uplift_per_gb) == (2, 4, 0.05, 0.025)


def test_without_an_extra_there_is_no_quotient() -> None:
    same = Costs(seconds=1.0, best_seconds=1.0, bytes=1, best_bytes=2, uplift=0.1)
    assert (same.uplift_per_s, same.uplift_per_gb) == (None, None)
    unknown = Costs(seconds=None, best_seconds=1.0, bytes=None, best_bytes=2, uplift=0.1)
    assert (unknown.extra_s, unknown.extra_gb, unknown.uplift_per_s) == (None, None, None)
