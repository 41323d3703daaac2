"""The steps of a run: one table says of every kind who works on it, what the user sees of it and what its rows are.

A run is a short graph of steps (`domain.planning` draws it). Whoever plans, schedules, counts or shows jobs asks for a
property of the step, never for the kind itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, TypeAlias

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
    """Makes the samples of a dataset; what follows is planned from what it finds."""
    GENERATE = "GENERATE"
    """Asks the run's target."""
    IMPORT = "IMPORT"
    """Takes answers out of a file instead of asking for them."""
    SCORE = "SCORE"
    REPORT = "REPORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProperties:
    """What a kind of step is."""

    worker: WorkerKind
    """Who works on it."""
    stage: Stage
    asks: Literal["run"] | None = None
    """Whose target it sends requests to; None where it sends none."""
    writes_facts: bool = False
    """It owns a range of ordinals, each of which gets its row."""


STEPS: Final[Mapping[StepKind, StepProperties]] = {
    StepKind.INDEX: StepProperties(worker="evaluation", stage=Stage.INDEX),
    StepKind.GENERATE: StepProperties(worker="inference", stage=Stage.INFERENCE, asks="run", writes_facts=True),
    StepKind.IMPORT: StepProperties(worker="evaluation", stage=Stage.INFERENCE, writes_facts=True),
    StepKind.SCORE: StepProperties(worker="evaluation", stage=Stage.EVALUATION),
    StepKind.REPORT: StepProperties(worker="reporting", stage=Stage.REPORT),
}
