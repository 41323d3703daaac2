"""Bodies of `/pipelines/sessions`: questions that somebody asked a pipeline, step by step."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field, JsonValue

from vlmhyperbench.domain.base import Sha256
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.wire.base import Input, Label, Output

StepState = Literal["waiting", "running", "done", "failed", "skipped"]
"""`skipped`: there was nothing to ask, such as a repair of a valid answer."""


class SessionCreate(Input):
    """Request to ask a pipeline one question."""

    pipeline: Label
    question: Sha256
    """Hash of a file of answers with the question and its images, in one line without an answer, that was uploaded."""
    name: Label | None = None
    priority: int = 50


class SessionRerun(Input):
    """Request to ask the models of a stage again, in a new session that reuses the answers of the stages before it."""

    stage: Label
    name: Label | None = None
    priority: int = 50


class Session(Output):
    """A session in a list."""

    id: UUID
    pipeline: str
    name: str
    state: RunState
    parent_run_id: UUID | None
    created_at: datetime
    started_at: datetime | None
    """When its first job began; None before that."""
    finished_at: datetime | None


class SessionStep(Output):
    """One model that the pipeline asks in one role."""

    no: int
    """Its position among the steps of the session."""
    stage: str
    role: str
    model: str
    state: StepState
    prompt: str | None = None
    text: str | None = None
    error: str | None = None
    latency_s: float | None = None
    """Compute time of the request."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    is_reused: bool = False
    """Whether the answer is that of the session before."""


class SessionLoad(Output):
    """A model that was loaded with less than its entry states, so that it fits."""

    stage: str
    role: str
    model: str
    fallbacks: list[dict[str, JsonValue]]
    """What was given up, step by step, as the run manifest states it."""


class SessionStage(Output):
    """What the answers of a stage's models came to."""

    id: str
    status: str
    """`ok`, or why the stage has no answer."""
    value: str | None = None
    reason: str | None = None
    n_valid: int | None = None
    """Number of answers that the aggregation could use; None where nothing was aggregated."""
    support: float | None = None
    confidence: float | None = None
    margin: float | None = None
    tie: bool | None = None
    dissent: list[str] = Field(default_factory=list)
    """Models whose answers are not in the winning class."""


class SessionDetail(Session):
    """A session with everything that its steps answered so far."""

    question: str | None
    images: list[str]
    """Content hashes."""
    steps: list[SessionStep]
    """Without those that the request leaves out."""
    loads: list[SessionLoad]
    """The models that this session itself loaded with less than their entries state."""
    stages: list[SessionStage] = Field(default_factory=list)
    """Empty until the pipeline has combined the answers."""
    answer: str | None
    """Answer of the pipeline; None while it has none, or where it failed."""
    error: str | None
    """Why the pipeline has no answer."""
    latency_s: float | None
    """From the start of the session to its end, with loading and waiting."""
    compute_s: float | None
    """Compute-only critical path."""
