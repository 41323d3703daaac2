"""Bodies of `/pipelines`: registered pipelines and whether they can start, drafts, and plans of one question."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue

from vlmhyperbench.wire.base import Input, Output
from vlmhyperbench.wire.plans import PlannedMemory, PlannedTime
from vlmhyperbench.wire.registry import Origin


class StageSummary(Output):
    """A stage of a pipeline in a list."""

    id: str
    type: str
    models: list[str]
    input_from: list[str]
    aggregation: str | None = None
    merger: str | None = None
    """Model that merges the answers."""


class PipelineStatus(Output):
    """A registered pipeline, and whether it can start on the machine of the API."""

    name: str
    is_base: bool
    """Whether it is the base pipeline, the entry `base`."""
    description: str = ""
    origin: Origin = "file"
    execution_mode: str | None = None
    stages: list[StageSummary] = Field(default_factory=list)
    blocked: list[str] = Field(default_factory=list)
    """Every reason for which it cannot start; empty if it can."""
    warnings: list[str] = Field(default_factory=list)
    """Optional models that it goes on without."""
    doubts: list[str] = Field(default_factory=list)
    """Models that may have to be loaded smaller than their entries say, or may not fit at all, optional or not."""


class PipelineDraft(Input):
    """A pipeline that is not saved."""

    name: Annotated[str, Field(max_length=200)] = ""
    entry: dict[str, JsonValue]


class PipelineProblem(Output):
    """Something that is wrong in a draft."""

    stage: int | None
    """Position of the stage from 0; None if it belongs to no stage."""
    field: str
    """Dotted path in the entry, such as `stages.0.model`."""
    message: str
    cure: str = ""


class PipelineCheck(Output):
    """All that is wrong in a draft, and what would keep it from starting here."""

    problems: list[PipelineProblem]
    blocked: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    doubts: list[str] = Field(default_factory=list)


class PlannedStep(Output):
    """A model that one question would ask, and how long its answers took before."""

    stage: str
    role: str
    model: str
    expected_s: float | None
    """Mean seconds of an answer over finished jobs of the model, once it is loaded; None if none has finished."""
    shortest_s: float | None
    longest_s: float | None


class PipelinePlan(Output):
    """What one question to a pipeline would ask, need and take. Nothing was created."""

    steps: list[PlannedStep]
    time: PlannedTime
    """One step after the other, on a worker that is idle."""
    memory: PlannedMemory
    largest_bytes: int | None
    """Memory of the model that needs the most: enough where one is loaded after the other."""
    together_bytes: int | None
    """Memory of all models: needed where all stay loaded. None if that of one is not known."""
