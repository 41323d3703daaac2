"""The steps of a run: one table says of every kind who works on it, what the user sees of it and what its rows are.

A run is a short graph of steps (`domain.planning` draws it). Whoever plans, schedules, counts or shows jobs asks for a
property of the step, never for the kind itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from vlmhyperbench_sdk.load import PhaseKind

WorkerKind: TypeAlias = Literal["evaluation", "inference", "reporting"]


class Stage(StrEnum):
    """What the user sees of a step."""

    INDEX = "index"
    INFERENCE = "inference"
    EVALUATION = "evaluation"
    REPORT = "report"


class StepKind(StrEnum):
    """Kinds of steps, in the order in which a run comes to them; a job is of the kind of its step."""

    INDEX = "INDEX"
    """Makes the samples of a dataset."""
    GENERATE = "GENERATE"
    """Asks the run's target."""
    IMPORT = "IMPORT"
    """Takes answers out of a file instead of asking for them."""
    JUDGE = "JUDGE"
    """Asks the target of a metric about the run's answers."""
    SCORE = "SCORE"
    """Values answers, those of this run or those that it keeps of another."""
    REPORT = "REPORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProperties:
    """What a kind of step is."""

    worker: WorkerKind
    """Who works on it."""
    stage: Stage
    """What the user sees it as."""
    samples: Literal["dataset", "answers"] | None = None
    """What it works on: the samples of the dataset, or the answers of the steps that it needs."""
    asks: Literal["run", "metric"] | None = None
    """Whose target it sends requests to: the run's own, or the one that a metric pins; None: it sends none."""
    phase: PhaseKind | None = None
    """Kind of the phase that its jobs fill with facts, one row per ordinal of their ranges, unless the run's scenario
    is timed and has a kind of its own; None: it writes no facts."""
    counts: bool = False
    """Its rows are the run's answers."""
    expands: bool = False
    """What follows is planned from what it finds: until then its run is not running."""
    is_optional: bool = False
    """Its failure costs the run no more than its own rows."""

    @property
    def writes_facts(self) -> bool:
        """Whether each ordinal of its jobs' ranges gets its row."""
        return self.phase is not None

    @property
    def facts_phase(self) -> PhaseKind:
        """Kind of the phase that its jobs fill with facts.

        Raises:
            LookupError: it writes no facts.
        """
        if self.phase is None:
            raise LookupError(f"A step of the stage {self.stage} writes no facts.")
        return self.phase


STEPS: Final[Mapping[StepKind, StepProperties]] = {
    StepKind.INDEX: StepProperties(worker="evaluation", stage=Stage.INDEX, expands=True),
    StepKind.GENERATE: StepProperties(
        worker="inference", stage=Stage.INFERENCE, samples="dataset", asks="run", phase="accuracy", counts=True
    ),
    StepKind.IMPORT: StepProperties(
        worker="evaluation", stage=Stage.INFERENCE, samples="dataset", phase="accuracy", counts=True
    ),
    StepKind.JUDGE: StepProperties(
        worker="inference",
        stage=Stage.EVALUATION,
        samples="answers",
        asks="metric",
        phase="judge",
        is_optional=True,
    ),
    StepKind.SCORE: StepProperties(worker="evaluation", stage=Stage.EVALUATION, samples="answers"),
    StepKind.REPORT: StepProperties(worker="reporting", stage=Stage.REPORT),
}


def asks_the_run(kind: str) -> bool:
    """Say whether jobs of a kind ask the run's own target, so that what they record is a measurement of the run."""
    return STEPS[StepKind(kind)].asks == "run"
