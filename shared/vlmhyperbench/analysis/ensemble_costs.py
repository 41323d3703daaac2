"""What an ensemble costs: time by step, critical path, memory, and the uplift for each extra second and gigabyte."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from vlmhyperbench.analysis.stats import FloatArray

GB = 1e9
CRITICAL_PATH = "compute-only critical path"
"""Name of the latency of a benchmark's pipeline: each step's own time, without loading models and without waiting."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepTimes:
    """The time that one model needs in a stage."""

    stage: str
    model: str
    seconds: FloatArray
    """Time of each sample; 0 where the model was not asked. Shape: (samples,)."""
    after: tuple[str, ...] = ()
    """Stages whose answers it needs."""
    merges: bool = False
    """Whether it needs the answers of the steps before it in its own stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A step in the waterfall: when it starts after the question, and how long it takes, on average."""

    stage: str
    model: str
    start_s: float
    seconds: float

    @property
    def end_s(self) -> float:
        return self.start_s + self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Extra time and memory of the ensemble over its best member; None where a number is unknown."""

    seconds: float | None
    """Compute time of all steps for one answer."""
    best_seconds: float | None
    bytes: int | None
    """Peak memory of the ensemble."""
    best_bytes: int | None
    uplift: float

    @property
    def extra_s(self) -> float | None:
        return None if self.seconds is None or self.best_seconds is None else self.seconds - self.best_seconds

    @property
    def extra_gb(self) -> float | None:
        return None if self.bytes is None or self.best_bytes is None else (self.bytes - self.best_bytes) / GB

    @property
    def uplift_per_s(self) -> float | None:
        """Uplift for each extra second of compute; None where there is no extra second."""
        return _ratio(self.uplift, self.extra_s)

    @property
    def uplift_per_gb(self) -> float | None:
        """Uplift for each extra gigabyte of memory; None where there is no extra memory."""
        return _ratio(self.uplift, self.extra_gb)


def waterfall(steps: Sequence[StepTimes]) -> tuple[Bar, ...]:
    """Return the mean time by step: a step starts when the slowest one of those that it needs has ended.

    Args:
        steps: In an order in which a step comes after those that it needs. The members of a stage run at one time.
    """
    bars: list[Bar] = []
    ends: dict[str, float] = {}
    for step in steps:
        start = max((ends[stage] for stage in _needs(step, ends)), default=0.0)
        seconds = float(step.seconds.mean()) if len(step.seconds) else 0.0
        bars.append(Bar(stage=step.stage, model=step.model, start_s=start, seconds=seconds))
        ends[step.stage] = max(ends.get(step.stage, 0.0), bars[-1].end_s)
    return tuple(bars)


def critical_path(steps: Sequence[StepTimes]) -> FloatArray:
    """Return the time of each sample along the slowest chain of steps. Shape: (samples,).

    This is the latency with every model loaded and a device for each; the sum of all steps is what one device needs.

    Args:
        steps: As in `waterfall`; at least one.
    """
    ends: dict[str, FloatArray] = {}
    for step in steps:
        waits = [ends[stage] for stage in _needs(step, ends)]
        end = step.seconds + (np.maximum.reduce(waits) if waits else 0.0)
        ends[step.stage] = np.maximum(ends[step.stage], end) if step.stage in ends else end
    longest: FloatArray = np.maximum.reduce(list(ends.values()))
    return longest


def _needs(step: StepTimes, ended: Collection[str]) -> list[str]:
    """Return the stages for which a step waits; one in which only pipelines answer has no steps of its own."""
    needed = (step.stage, *step.after) if step.merges else step.after
    return [stage for stage in needed if stage in ended]


def _ratio(uplift: float, extra: float | None) -> float | None:
    return uplift / extra if extra is not None and extra > 0 else None
