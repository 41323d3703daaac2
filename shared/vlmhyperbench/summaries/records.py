"""What a summary says of claims, phases and judges: plain records, cheap to import for whoever reads them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from vlmhyperbench.analysis.costs import Usage
from vlmhyperbench.analysis.distributions import FloatArray, IntArray
from vlmhyperbench.analysis.timelines import Grid
from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturber:
    """An inference that ran beside a claim, on the same machine or device."""

    claim_id: str
    run_id: str | None
    """None of another project's, whose runs are not named."""
    run_name: str | None
    is_stranger: bool = False
    """It is of another stack, or of the command `load`, and was met on the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimEvidence:
    """What one claim recorded of the machine and the engine that answered."""

    id: str
    job: str
    """Kind of the job: `GENERATE`, `SCORE` …, or `JUDGE` where it asked a judge."""
    host: str
    machine: JsonObject
    engine: JsonObject | None
    packages: JsonObject
    client: JsonObject | None
    measured_at: str | None
    resources: JsonObject | None = None
    job_id: str = ""
    """Two claims of one job: the first was interrupted."""
    anchor_monotonic_ns: int | None = None
    anchor_wall_ns: int | None = None
    started_at: str = ""
    ended_at: str = ""
    sending_from_ns: int | None = None
    """First request and last end by the machine's monotonic clock, what stands aside too; None where not recorded."""
    sending_until_ns: int | None = None
    disturbed_by: tuple[Disturber, ...] | None = None
    """None where the claim did not record when, or on what, it sent."""


def numbers(records: Iterable[JsonObject | None], name: str) -> list[float]:
    """Return the numbers that stand under a name; a record without one is left out."""
    found = [(record or {}).get(name) for record in records]
    return [float(value) for value in found if isinstance(value, int | float) and not isinstance(value, bool)]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeUse(Usage):
    """What asking one judge took of its target."""

    metric: str
    """`name@profile`."""
    requests: int
    kept: int
    """Of them, verdicts that were known already."""
    failed: int
    busy_s: float
    """Sum of the latencies of what was asked here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseEvidence:
    """A phase of the run, void ones too."""

    no: int
    kind: str
    state: str
    count: int | None
    params: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenEvents:
    """The token-bearing events of a run's answered requests, folded (`summaries.tokens`)."""

    grid: Grid | None
    """Bins of the run's time; None where its claims share no clock, which gaps do without."""
    tokens: FloatArray
    """Output tokens by bin. Shape: (grid.bins,), or (0,) without one."""
    gap_counts: IntArray
    """Gaps between tokens, one a token, by `distributions.bucket_counts`. Shape: (BUCKETS,)."""
    uncounted: int
    """Answers whose tokens nobody counted; their gaps are in, their tokens are not."""
