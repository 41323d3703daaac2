"""Request and response bodies of `/runs` and `/experiments`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Discriminator, Field, JsonValue, Tag

from vlmhyperbench.domain.causes import Cause
from vlmhyperbench.domain.retuning import MAX_IN_FLIGHT
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.states import ExperimentState, JobState, PhaseState, RunState
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.domain.waiting import WaitCode
from vlmhyperbench.registry.choices import EvaluationChoices, name_tag
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry
from vlmhyperbench.wire.base import Input, Label, Output
from vlmhyperbench.wire.live import Progress
from vlmhyperbench.wire.shortages import MemoryShortage
from vlmhyperbench.wire.summaries import Performance, QualityScore

Origins = Annotated[
    dict[Annotated[str, Field(max_length=500)], Annotated[str, Field(min_length=1, max_length=500)]],
    Field(max_length=2000),
]
"""Path of a value in the entry, such as `decoding.temperature` → where the sender read it: a flag, a line of a file."""
Priority = Annotated[int, Field(ge=-100, le=100)]
RunRef = Annotated[Annotated[Label, Tag("a name")] | Annotated[RunEntry, Tag("written out")], Discriminator(name_tag)]
ExperimentRef = Annotated[
    Annotated[Label, Tag("a name")] | Annotated[ExperimentEntry, Tag("written out")], Discriminator(name_tag)
]


class RunCreate(Input):
    """Request to create a run from the name of a registry entry, or from an entry."""

    run: RunRef
    name: Label | None = None
    priority: Priority = 0
    origins: Origins = Field(default_factory=dict)


class RunRescore(EvaluationChoices):
    """Request to create a run that re-scores the stored answers of another run without requests to a model."""

    name: Label | None = None
    priority: Priority = 0


class RunRerun(Input):
    """Request to repeat a run in a new run, unchanged or with the spec `run`; unchanged rows are reused."""

    run: RunRef | None = None
    """The new run entry; by default that of the original run."""
    force: Literal["index", "inference", "evaluation", "report"] | None = None
    """First stage that is repeated even if nothing changed, as are those after it. Evaluation and report always are."""
    retry_failed: bool = False
    """Refuse the request if no row failed, since there is nothing to retry."""
    name: Label | None = None
    priority: Priority = 0
    origins: Origins = Field(default_factory=dict)


class RunRetune(Input):
    """Request to change how many requests an untimed closed loop keeps in flight, in each shard of the run."""

    in_flight: Annotated[int, Field(ge=1, le=MAX_IN_FLIGHT)]


class ExperimentCreate(Input):
    """Request to create an experiment from the name of a registry entry, or from an entry."""

    experiment: ExperimentRef
    name: Label | None = None
    priority: Priority = 0
    origins: Origins = Field(default_factory=dict)


class Retune(Output):
    """A change of the requests in flight of a run; its speeds are then no measurement of one concurrency."""

    in_flight: int
    before: int
    by: str
    at: datetime


class Phase(Output):
    """A part of a run whose requests are counted or voided together."""

    no: int
    kind: str
    state: PhaseState
    count: int | None
    opened_at: datetime
    closed_at: datetime | None


class Job(Output):
    """A unit of work that a worker owns by a lease."""

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
    """Score of one metric over a run's answers."""

    metric: str
    value: float | None
    ci_low: float | None = None
    """Bounds of the 95 % interval: `ci_low` and `ci_high`."""
    ci_high: float | None = None
    n: int
    """Number of answers that have a value."""
    n_without_value: int = 0
    unscored: int = 0
    """Of those without a value, the number of answers that the metric could not score."""
    invalid: int = 0
    """Number of answers that could not be parsed, whether or not the policy gives them a value."""
    lower: float | None = None
    """Bounds of the value, `lower` and `upper`, over all values that the answers without one could have."""
    upper: float | None = None
    evaluation_id: str | None = None
    """Short id of the evaluation identity: everything that determines the number."""


class Headline(Output):
    """Key figures of a run's report; metrics in the task's order, the primary metric first."""

    scores: list[MetricScore] = Field(default_factory=list)
    requested: int | None = None
    ok: int | None = None
    model_failures: int | None = None
    infrastructure_failures: int | None = None
    validity: str | None = None
    """Whether the speeds count as measurements: `valid`, or the reason why not; None if nothing was timed."""
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
    """Cost of the answers by the target's prices, in `cost_currency`; None if `cost_unknown` gives a reason."""
    cost_per_answer: float | None = None
    cost_per_million_tokens: float | None = None
    """Per million tokens of prompt and completion together."""
    cost_basis: str | None = None
    """`tokens`, or `hours`: a cost by the hour is a speed, and counts as one where `validity` says so."""
    cost_currency: str | None = None
    cost_unknown: str | None = None


class WaitsFor(Output):
    """Why an open run makes no progress now."""

    code: WaitCode
    message: str
    run_id: UUID | None = None
    """The run that blocks it."""


class Run(Output):
    """A run: one target, one task, one scenario."""

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
    """Decision of its stop rule, once it is certain: `{rule, state, samples, of, low, high …}`."""
    total: int | None
    """Number of counted requests; known once the run is INDEXED."""
    done: int
    failed: int
    headline: Headline | None = None
    """Scores and speeds; None until a report exists."""
    waits_for: WaitsFor | None = None
    """None while the run makes progress and after it has ended."""
    event_seq: int
    created_by: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class RequestError(Output):
    """An error of a run's requests; errors whose messages differ only in numbers are counted together."""

    message: str
    """The server's message, truncated, without secrets and control characters."""
    code: str
    """The server's error code or type; else that of the load generator, such as `timeout`."""
    http_status: int | None
    rule: str
    """Matching row of the table of causes."""
    cause: Cause
    """`configuration` and `infrastructure` never count against the model; `sample` and `model` do, by policy."""
    count: int


class RunDetail(Run):
    """A run with its pinned spec, phases, jobs and current progress."""

    spec: RunSpec
    phases: list[Phase]
    jobs: list[Job]
    quality: list[QualityScore] = Field(default_factory=list)
    """Every metric with its groups, from the stored summary; empty until a report exists."""
    performance: Performance | None = None
    """From the stored summary; None until a report exists."""
    is_degraded: bool = False
    """Whether a model was loaded with less than full quality, or left out, so that it fits; from the stored summary."""
    errors: list[RequestError] = Field(default_factory=list)
    """Errors of its requests, most frequent first; at most 100."""
    shortages: list[MemoryShortage] = Field(default_factory=list)
    """Models that were not loaded, because they need more memory than there was."""
    progress: Progress | None = None
    in_flight: int
    """Requests that are kept in flight in each shard: of the scenario, or of the last retune."""
    can_retune: bool
    """Whether the requests in flight may be changed now."""
    retunes: list[Retune] = Field(default_factory=list)
    """Changes of the requests in flight, oldest first."""
    warnings: list[str] = Field(default_factory=list)
    """Warnings about valid but unusual input; only in the response to the submission."""


class Experiment(Output):
    """An experiment: a matrix that was expanded into runs."""

    id: UUID
    name: str
    state: ExperimentState
    is_paused: bool = False
    """Whether it has open runs and all of them are paused."""
    is_cancelling: bool
    run_states: dict[str, int]
    """Number of runs per state."""
    event_seq: int
    created_by: str
    created_at: datetime
    finished_at: datetime | None


class ExperimentDetail(Experiment):
    """An experiment with its runs, baseline first."""

    runs: list[Run]
    warnings: list[str] = Field(default_factory=list)
    """Warnings about valid but unusual input; only in the response to the submission."""
