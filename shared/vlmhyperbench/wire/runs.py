"""Bodies of `/runs` and `/experiments`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Discriminator, Field, JsonValue, Tag

from vlmhyperbench.domain.causes import Cause
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.states import ExperimentState, JobState, PhaseState, RunState
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.domain.waiting import WaitCode
from vlmhyperbench.registry.choices import EvaluationChoices, name_tag
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry
from vlmhyperbench.wire.base import Input, Label, Output
from vlmhyperbench.wire.live import Progress
from vlmhyperbench.wire.summaries import Performance, QualityScore

Priority = Annotated[int, Field(ge=-100, le=100)]
RunRef = Annotated[Annotated[Label, Tag("a name")] | Annotated[RunEntry, Tag("written out")], Discriminator(name_tag)]
ExperimentRef = Annotated[
    Annotated[Label, Tag("a name")] | Annotated[ExperimentEntry, Tag("written out")], Discriminator(name_tag)
]


class RunCreate(Input):
    """Ask for a run: the name of a registry entry, or the entry itself."""

    run: RunRef
    name: Label | None = None
    priority: Priority = 0


class RunRescore(EvaluationChoices):
    """Ask for a run that evaluates another's answers anew, without asking a model."""

    name: Label | None = None
    priority: Priority = 0


class RunRerun(Input):
    """Ask for a run again: as it was, or as `run` says; what has not changed is kept."""

    run: RunRef | None = None
    """What it is now; by default what it was."""
    force: Literal["index", "inference", "evaluation", "report"] | None = None
    """The first stage that runs anew whatever is the same; those after it do too. Evaluation and report always do."""
    retry_failed: bool = False
    """Refuse where no row failed: there is nothing to try again."""
    name: Label | None = None
    priority: Priority = 0


class ExperimentCreate(Input):
    """Ask for an experiment: the name of a registry entry, or the entry itself."""

    experiment: ExperimentRef
    name: Label | None = None
    priority: Priority = 0


class Phase(Output):
    """A part of a run whose requests count, or are void, together."""

    no: int
    kind: str
    state: PhaseState
    count: int | None
    opened_at: datetime
    closed_at: datetime | None


class Job(Output):
    """One unit of work with one lease."""

    id: UUID
    kind: StepKind
    state: JobState
    worker_id: UUID | None
    range_start: int | None
    range_end: int | None
    attempts: int
    fails: int
    done: int
    failed: int
    outcome: dict[str, JsonValue] | None
    finished_at: datetime | None


class MetricScore(Output):
    """What one metric says of a run's answers."""

    metric: str
    value: float | None
    ci_low: float | None = None
    """Ends of the 95 % interval."""
    ci_high: float | None = None
    n: int
    """Answers that have a value."""
    n_without_value: int = 0
    unscored: int = 0
    """Of these, answers that the metric gives no number."""
    invalid: int = 0
    """Answers out of which nothing could be read, with a value by policy or without."""
    lower: float | None = None
    """What the value would be at least, and at most, if the answers without a value had one."""
    upper: float | None = None
    evaluation_id: str | None = None
    """Short id of everything that decides the number."""


class Headline(Output):
    """What the report says of a run in a few numbers; the metrics in the task's order, the primary one first."""

    scores: list[MetricScore] = Field(default_factory=list)
    requested: int | None = None
    ok: int | None = None
    model_failures: int | None = None
    infrastructure_failures: int | None = None
    validity: str | None = None
    """Whether the speeds count: `valid`, or why they are no measure; None where nothing was timed."""
    latency_p50_ms: float | None = None
    latency_p99_ms: float | None = None
    ttft_p50_ms: float | None = None
    output_tokens_per_s: float | None = None
    samples_per_s: float | None = None
    goodput_per_s: float | None = None
    energy_j_per_answer: float | None = None
    peak_memory_bytes: float | None = None
    peak_memory_of: str | None = None
    cost_total: float | None = None
    """What the answers cost by the target's prices, in `cost_currency`; None where `cost_unknown` says why."""
    cost_per_answer: float | None = None
    cost_per_million_tokens: float | None = None
    """Of prompt and completion together."""
    cost_currency: str | None = None
    cost_unknown: str | None = None


class WaitsFor(Output):
    """Why nothing happens to an open run now."""

    code: WaitCode
    message: str
    run_id: UUID | None = None
    """The run that is in the way."""


class Run(Output):
    """One target, one task, one scenario."""

    id: UUID
    experiment_id: UUID | None
    parent_run_id: UUID | None
    name: str
    state: RunState
    reason: str | None
    target: str
    """Name of the model or endpoint."""
    task: str
    scenario: str
    spec_digest: str
    priority: int
    is_paused: bool
    is_cancelling: bool
    stopping: dict[str, JsonValue] | None
    """What its stop rule found, once it was certain: `{rule, state, samples, of, low, high …}`."""
    total: int | None
    """Requests that count; known once the run is INDEXED."""
    done: int
    failed: int
    headline: Headline | None = None
    """Scores and speeds; None until there is a report."""
    waits_for: WaitsFor | None = None
    """None while it is worked on, and once it has ended."""
    event_seq: int
    created_by: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class RequestError(Output):
    """What requests of a run failed with; those whose messages differ in numbers only are counted together."""

    message: str
    """What the server said, bounded, without secrets and control characters."""
    code: str
    """The server's own code or type of the error; else the load generator's, such as `timeout`."""
    http_status: int | None
    rule: str
    """Row of the table of causes."""
    cause: Cause
    """`configuration` and `infrastructure` never count against the model; `sample` and `model` do, by policy."""
    count: int


class RunDetail(Run):
    """A run with its pinned spec, phases, jobs and present progress."""

    spec: RunSpec
    phases: list[Phase]
    jobs: list[Job]
    quality: list[QualityScore] = Field(default_factory=list)
    """Every metric with its groups, of the stored summary; empty until there is a report."""
    performance: Performance | None = None
    """Of the stored summary; None until there is a report."""
    errors: list[RequestError] = Field(default_factory=list)
    """What its requests failed with, the most frequent first; at most 100."""
    progress: Progress | None = None
    warnings: list[str] = Field(default_factory=list)
    """Said once, where it is submitted: what is allowed and rarely meant."""


class Experiment(Output):
    """A matrix that expanded to runs."""

    id: UUID
    name: str
    state: ExperimentState
    is_paused: bool = False
    """It has open runs, and every one of them is paused."""
    is_cancelling: bool
    run_states: dict[str, int]
    """How many runs are in each state."""
    event_seq: int
    created_by: str
    created_at: datetime
    finished_at: datetime | None


class ExperimentDetail(Experiment):
    """An experiment with its runs, the baseline first."""

    runs: list[Run]
    warnings: list[str] = Field(default_factory=list)
    """Said once, where it is submitted: what is allowed and rarely meant."""
