"""Response bodies from a run's summary: quality by metric and group, and speeds."""

from __future__ import annotations

from pydantic import Field

from vlmhyperbench.wire.base import Output


class GroupScore(Output):
    """Score of one metric over one group of answers."""

    group: list[str]
    """Values of the group columns."""
    value: float | None
    ci_low: float | None
    """Bounds of the 95 % interval: `ci_low` and `ci_high`."""
    ci_high: float | None
    n: int
    """Number of answers that have a value."""
    n_without_value: int
    lower: float | None
    """Bounds of the value, `lower` and `upper`, over all values that the answers without one could have."""
    upper: float | None


class QualityScore(GroupScore):
    """Score of one metric over all answers of a run, and by each group column of its report."""

    metric: str
    """Name of the metric in the headline."""
    label: str
    profile: str
    version: str
    extractor: str
    """Extractor that parsed the answers."""
    evaluation_id: str
    direction: str | None
    """Which values are better: `higher` or `lower`; None if not declared."""
    groups: dict[str, list[GroupScore]] = Field(default_factory=dict)


class Spread(Output):
    """Distribution of a time over the answered requests, in milliseconds."""

    n: int
    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None


class SpeedGate(Output):
    """A condition that must hold for the run's speeds to count as measurements."""

    name: str
    ok: bool
    value: float | None
    """None if it was not recorded, which does not void the measurement."""
    limit: float
    is_least: bool
    """Whether the limit is a minimum instead of a maximum."""


class Performance(Output):
    """Speeds over the requests that the run itself sent; None where not measured."""

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
    """Share of all requests that met every limit of the scenario's SLO."""
    parts: int
    """Number of claims that measured it."""
    is_interrupted: bool
    is_partial: bool
    is_retuned: bool = False
    """Whether the requests in flight were changed while it was measured."""
    peak_memory_bytes: int | None
    peak_memory_of: str | None
    energy_j_per_answer: float | None
