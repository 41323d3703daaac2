"""Bodies of comparisons of runs with a baseline, of leaderboards, and of columns over all runs."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import Field, JsonValue, model_validator

from vlmhyperbench.analysis.gate_policy import GatePolicy
from vlmhyperbench.domain.base import Refused
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.wire.base import Input, Output

MAX_COMPARED = 20


class CompareRequest(Input):
    """Which runs are compared with the first one, and the gate that they have to meet."""

    runs: Annotated[list[Annotated[str, Field(max_length=100)]], Field(min_length=2, max_length=MAX_COMPARED)]
    gate: GatePolicy | None = None
    gate_yaml: Annotated[str, Field(max_length=20_000)] | None = None
    """The same policy as YAML, as `vlmhyperbench compare --gate` reads it."""

    @model_validator(mode="after")
    def _has_one_gate(self) -> Self:
        if self.gate is not None and self.gate_yaml is not None:
            raise Refused("it has two gates", cure="Give gate or gate_yaml.")
        return self


class ComparedSide(Output):
    """A run of a comparison."""

    id: UUID
    name: str
    target: str
    task: str
    dataset: str
    state: RunState


class MetricDelta(Output):
    """The paired difference of one metric: the other run's value minus the baseline's, on the answers of both."""

    metric: str
    label: str
    direction: Literal["higher", "lower"] | None
    scale: float
    pairs: int
    lost: int
    """Answers of either run without a pair."""
    units: int
    """Documents that the pairs belong to."""
    baseline: float | None
    other: float | None
    difference: float | None
    low: float | None
    """Bounds of the 95 % interval of the difference: `low` and `high`."""
    high: float | None
    p_value: float | None
    p_adjusted: float | None
    """After Holm's adjustment over all metrics of all compared runs."""
    test: str
    detectable: float | None
    """Smallest true difference that this number of documents shows with a power of 80 %."""
    wins: int | None
    ties: int
    losses: int | None
    verdict: str
    disagreement_reason: str | None
    """Why interval and p-values disagree."""


class FlipCounts(Output):
    """Answers by whether they are right in each run, by the primary metric."""

    both_right: int
    broke: int
    mended: int
    both_wrong: int


class SpeedDelta(Output):
    """One speed or cost of both runs."""

    name: str
    baseline: float | None
    other: float | None
    change: float | None
    """Relative change; None where the two may not be compared, or a value is missing."""


class ConfigurationDifference(Output):
    """A value in which two specs or two evaluation identities differ."""

    path: str
    baseline: JsonValue
    other: JsonValue


class GateCheck(Output):
    """Result of one rule of a gate."""

    rule: str
    status: Literal["passed", "failed", "inconclusive"]
    message: str


class ComparedRun(Output):
    """One run against the baseline."""

    run: ComparedSide
    verdict: str
    """The result in sentences."""
    is_paired: bool
    """Whether answers are paired: both runs have samples of the same data set."""
    is_same_samples: bool
    warnings: list[str]
    metrics: list[MetricDelta]
    flips: FlipCounts | None
    """None without a common primary metric that has a right value; the samples of `run` with `against` list them."""
    same_texts: int
    """Number of pairs whose answers are equal, character by character."""
    text_pairs: int
    speeds: list[SpeedDelta]
    costs: list[SpeedDelta]
    are_speeds_compared: bool
    configuration: list[ConfigurationDifference]
    evaluation: dict[str, list[ConfigurationDifference]]
    """Metric → differences of its evaluation identity; empty lists where the numbers were computed alike."""
    is_gate_met: bool | None
    checks: list[GateCheck]


class RunsComparison(Output):
    """Runs compared with a baseline."""

    baseline: ComparedSide
    others: list[ComparedRun]


class LeaderboardEntry(Output):
    """A target on a leaderboard, by its newest run of the task."""

    run_id: UUID
    name: str
    target: str
    dataset: str
    value: float
    low: float | None
    high: float | None
    n: int | None
    rank: int
    """By value; equal values share the better rank."""
    rank_low: int | None
    """Ends of the interval that holds 95 % of its ranks over resamples of the documents that all have answered."""
    rank_high: int | None
    latency_p50_ms: float | None
    peak_memory_bytes: float | None


class Leaderboard(Output):
    """The targets of a task, the best first."""

    task: str
    metric: str
    direction: Literal["higher", "lower"]
    metrics: list[str]
    """Metrics that runs of the task have."""
    entries: list[LeaderboardEntry]
    ranked_on: int | None
    """Number of answers that all entries with a rank interval have; None without intervals."""
    note: str
    """Why there are no rank intervals, or which runs have none."""


class RunPoint(Output):
    """A run with its values in the columns that were asked for."""

    id: UUID
    name: str
    target: str
    task: str
    state: RunState
    values: list[float | None]
    is_best: bool | None
    """Whether no other point is better by all goals; None without goals, or without a value for one of them."""


class RunPoints(Output):
    """Values of columns over all runs that pass the filters."""

    columns: list[str]
    points: list[RunPoint]
    is_cut: bool
    """Whether more runs pass the filters than are listed."""
