"""What the summary of a run says, as the API shows it: quality by metric and group, and speeds."""

from __future__ import annotations

from pydantic import Field

from vlmhyperbench.wire.base import Output


class GroupScore(Output):
    """One metric over one group of answers."""

    group: list[str]
    """Values of the group columns."""
    value: float | None
    ci_low: float | None
    """Ends of the 95 % interval."""
    ci_high: float | None
    n: int
    """Answers that have a value."""
    n_without_value: int
    lower: float | None
    """What the value would be at least, and at most, if the answers without a value had one."""
    upper: float | None


class QualityScore(GroupScore):
    """One metric over all answers of a run, and by each group column that its report shows."""

    metric: str
    """As the headline names it."""
    label: str
    profile: str
    version: str
    extractor: str
    """What read the answers."""
    evaluation_id: str
    direction: str | None
    """Which end is good: `higher`, `lower`, or None where nobody says."""
    groups: dict[str, list[GroupScore]] = Field(default_factory=dict)


class Spread(Output):
    """A kind of time over the requests that were answered, in milliseconds."""

    n: int
    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None


class SpeedGate(Output):
    """A condition without which no speed of the run counts as a measurement."""

    name: str
    ok: bool
    value: float | None
    """None where nobody recorded it, which voids nothing."""
    limit: float
    is_least: bool
    """The limit is the smallest value that is allowed, not the largest."""


class Performance(Output):
    """What the requests that a run asked itself say of speed; None where it was not measured."""

    validity: str | None
    """Whether the speeds count: `valid`, or why they are no measure; None where nothing was timed."""
    gates: list[SpeedGate]
    times: dict[str, Spread]
    """`latency_ms`, `ttft_user_ms`, `ttft_service_ms`, `tpot_ms`, `queue_ms`."""
    window_s: float | None
    samples_per_s: float | None
    output_tokens_per_s: float | None
    output_tokens: int | None
    goodput_per_s: float | None
    goodput_share: float | None
    """Of all requests, those that kept every limit of the scenario's SLO."""
    parts: int
    """Claims that measured it."""
    is_interrupted: bool
    is_partial: bool
    peak_memory_bytes: int | None
    peak_memory_of: str | None
    energy_j_per_answer: float | None
