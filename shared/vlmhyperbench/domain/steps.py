"""The kinds of steps: one table with the worker, the stage and the rows of each kind.

A run is a short graph of steps (`domain.graph`). Code that plans, schedules, counts or shows jobs uses the properties
of their step, never the kind itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from vlmhyperbench_sdk.load import PhaseKind

WorkerKind: TypeAlias = Literal["evaluation", "inference", "reporting"]


class Stage(StrEnum):
    """The name of a step for users."""

    INDEX = "index"
    INFERENCE = "inference"
    EVALUATION = "evaluation"
    REPORT = "report"


class StepKind(StrEnum):
    """Kinds of steps, in the order of a run; a job has the kind of its step."""

    INDEX = "INDEX"
    """Enumerates the samples of a dataset."""
    GENERATE = "GENERATE"
    """Asks the run's target."""
    IMPORT = "IMPORT"
    """Reads answers from a file instead of asking a target."""
    MEMBER = "MEMBER"
    """Asks one model of a pipeline, in one of its stages."""
    COMBINE = "COMBINE"
    """Makes the run's answers of those of a pipeline's models, and asks none."""
    JUDGE = "JUDGE"
    """Asks the target of a metric about the run's answers."""
    SCORE = "SCORE"
    """Computes the metrics of the run's answers, measured or reused."""
    REPORT = "REPORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProperties:
    """Properties of a kind of step."""

    worker: WorkerKind
    """Kind of the workers that run its jobs."""
    stage: Stage
    """Name of the step for users."""
    samples: Literal["dataset", "answers"] | None = None
    """Its input: the samples of the dataset, or the answers of the steps that it needs."""
    asks: Literal["run", "member", "metric"] | None = None
    """The target to which it sends requests: that of the run, of a member of its pipeline, or of a metric; None: it
    sends none."""
    phase: PhaseKind | None = None
    """Kind of the phase to which its jobs write facts, one row per ordinal of their ranges; a timed scenario has a kind
    of its own. None: it writes no facts."""
    counts: bool = False
    """Whether its rows are the run's answers."""
    expands: bool = False
    """Whether the steps after it are planned from its result; the run becomes RUNNING only after it."""
    is_optional: bool = False
    """Whether the run continues without its rows if it fails."""

    @property
    def writes_facts(self) -> bool:
        """Whether it writes a row for each ordinal of its jobs' ranges."""
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
    # A pipeline answers without an optional model that failed; COMBINE fails where one is missing that is required.
    StepKind.MEMBER: StepProperties(
        worker="inference",
        stage=Stage.INFERENCE,
        samples="dataset",
        asks="member",
        phase="member",
        is_optional=True,
    ),
    StepKind.COMBINE: StepProperties(
        worker="evaluation", stage=Stage.INFERENCE, samples="answers", phase="accuracy", counts=True
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


def answers_for_the_run(kind: str) -> bool:
    """Return whether jobs of a kind load a model whose answers are the run's, or part of them."""
    return STEPS[StepKind(kind)].asks in {"run", "member"}


def asks_the_run(kind: str) -> bool:
    """Return whether jobs of a kind ask the run's own target, so that they measure the run."""
    return STEPS[StepKind(kind)].asks == "run"
