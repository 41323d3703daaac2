"""Claims, phases and judges as a summary stores them: plain records that are cheap to import."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from vlmhyperbench.analysis.costs import Usage
from vlmhyperbench.analysis.distributions import FloatArray, IntArray
from vlmhyperbench.analysis.timelines import Grid
from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturber:
    """An inference that ran at the same time as a claim, on the same machine or device."""

    claim_id: str
    run_id: str | None
    """None where the run belongs to another project, whose runs are not named."""
    run_name: str | None
    is_stranger: bool = False
    """Whether it belongs to another stack or to the command `load`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimEvidence:
    """Record of one claim about its machine and its engine."""

    id: str
    job: str
    """Kind of the job, such as `GENERATE`, `SCORE` or `JUDGE`."""
    host: str
    machine: JsonObject
    engine: JsonObject | None
    packages: JsonObject
    client: JsonObject | None
    measured_at: str | None
    environment: JsonObject | None = None
    """Where its engine ran, with the certificate of exactly that; None where not recorded."""
    resources: JsonObject | None = None
    job_id: str = ""
    """Job of the claim; where two claims have one job, the first was interrupted."""
    anchor_monotonic_ns: int | None = None
    anchor_wall_ns: int | None = None
    started_at: str = ""
    ended_at: str = ""
    sending_from_ns: int | None = None
    """First request by the machine's monotonic clock, including phases that do not count; None where not recorded."""
    sending_until_ns: int | None = None
    """End of the last request; None where not recorded."""
    failure: JsonObject | None = None
    """`{code, message}` of a claim of this run that failed, with `output`, the end of its engine's log, where known."""
    disturbed_by: tuple[Disturber, ...] | None = None
    """None where the claim did not record the time or the machine of its requests."""


def numbers(records: Iterable[JsonObject | None], name: str) -> list[float]:
    """Return the numbers under a name; records without a number are left out."""
    values = [(record or {}).get(name) for record in records]
    return [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]


def max_integer(values: Iterable[float]) -> int | None:
    """Return the largest value as an integer; None where there are no values."""
    return max(map(int, values), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeUse(Usage):
    """Usage of the target of one judge."""

    metric: str
    """`name@profile`."""
    requests: int
    kept: int
    """Number of requests whose verdict was reused."""
    failed: int
    busy_s: float
    """Sum of the latencies of the requests that were sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseEvidence:
    """A phase of the run, also a void one."""

    no: int
    kind: str
    state: str
    count: int | None
    params: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenEvents:
    """Token-bearing events of a run's answered requests, folded into counts (`summaries.tokens`)."""

    grid: Grid | None
    """Bins of the run's time; None where its claims share no clock. Gaps need no grid."""
    tokens: FloatArray
    """Output tokens by bin. Shape: (grid.bins,), or (0,) without a grid."""
    gap_counts: IntArray
    """Gaps between tokens, one per token, by `distributions.bucket_counts`. Shape: (BUCKETS,)."""
    uncounted: int
    """Number of answers without a token count; their gaps are included, their tokens are not."""
