"""Times and rates of a run's own requests, as numbers and as rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import polars

from vlmhyperbench.analysis.costs import Cost as PaidCost
from vlmhyperbench.analysis.distributions import Ordered, ordered
from vlmhyperbench.analysis.percentiles import percentiles_of
from vlmhyperbench.analysis.results import Distribution, Goodput, LimitVerdict, Percentile
from vlmhyperbench.domain.failures import UNREADABLE_SAMPLE
from vlmhyperbench.domain.specs import EndpointTarget
from vlmhyperbench.domain.units import NS_PER_MS
from vlmhyperbench.reports.cost import Cost, cost_of
from vlmhyperbench.reports.counting import count
from vlmhyperbench.reports.document import Cell, Column, Estimate, Table
from vlmhyperbench.reports.evidence import RunEvidence
from vlmhyperbench.reports.progress import Progress, progress_of
from vlmhyperbench.reports.records import ClaimEvidence
from vlmhyperbench.reports.resources import Resources, resources_of
from vlmhyperbench.reports.slo import goodput_in, judged_limits
from vlmhyperbench.reports.spans import ANSWERED, clock_offsets, on_one_clock, own_rows, window_s
from vlmhyperbench.reports.target_cost import cost_of_run
from vlmhyperbench.reports.tokens import gaps_ms
from vlmhyperbench.reports.validity import INVALID, State, Validity, marked, validity_of

_SHOWN: tuple[tuple[str, str, str], ...] = (
    ("latency_ms", "latency_ns", "latency, scheduled to last token"),
    ("ttft_user_ms", "ttft_user_ns", "TTFT from scheduled (the user's)"),
    ("ttft_service_ms", "ttft_service_ns", "TTFT from sent (the service's)"),
    ("tpot_ms", "tpot_ns", "TPOT, after the first token"),
    ("queue_ms", "queue_ns", "client queue, scheduled to sent"),
)
INTERRUPTED = "The run was interrupted: times before and after a restart are mixed, and its rates with them."
PARTIAL = "Speeds are those of a part of the run: it keeps answers of another, or its rule stopped it."
SpeedsState = State | Literal["interrupted", "partial"]

_OF_THE_CLIENT = {"queue_ms"}
"""What a failed request has as well, so that failures are not its slowest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """What a run's own requests say of speed; None where it was not measured."""

    times: dict[str, Distribution]
    """Of answered requests, in milliseconds."""
    values: dict[str, Ordered]
    """What they are the distributions of, by the same names."""
    percentiles: dict[str, tuple[Percentile, ...]]
    """Their p50, p90 and p99 with intervals, failed requests counting as infinite."""
    gaps: Ordered | None
    """Gaps between tokens in milliseconds, one a token, each within 0.5 %."""
    failed: int
    """Requests that were asked and not answered."""
    window_s: float | None
    """From the first request scheduled to the last stream's end, over all claims: see `window_s`."""
    samples_per_s: float | None
    """Answers of one engine; those without a token are none."""
    output_tokens_per_s: float | None
    output_tokens: int | None
    goodput: Goodput | None
    """By all limits of the scenario's SLO together."""
    limits: tuple[LimitVerdict, ...]
    """One by one."""
    token_sources: tuple[str, ...]
    parts: int
    """Claims that measured it: one per shard, and one more for each interruption."""
    is_interrupted: bool
    """A job was taken up again by another claim, so that times before and after a restart are mixed."""
    is_partial: bool
    """Some answers are kept of another run, so that times are only of the others; or a rule stopped it early."""
    hosts: int
    """Machines that measured it."""
    resources: Resources | None
    """What the engine took; None of an endpoint's, which nobody here sees."""
    progress: Progress | None
    """What happened when; None where there is no time that all claims share."""
    validity: Validity
    cost: Cost | None
    """Of measuring; None where no claim recorded it."""
    price: PaidCost
    """What the answers cost by the target's prices."""

    @property
    def peak_memory_bytes(self) -> int | None:
        """The accelerators' peak where there are any, else the engine's resident memory."""
        return None if self.resources is None else self.resources.peak_memory_bytes

    @property
    def is_no_measure(self) -> bool:
        """Whether the run's speeds are not those of its whole data set, measured in one go."""
        return self.is_interrupted or self.is_partial

    @property
    def state(self) -> SpeedsState:
        """What is to be said of the speeds in a word."""
        if self.validity.is_invalid or not self.is_no_measure:
            return self.validity.state
        return "interrupted" if self.is_interrupted else "partial"

    @property
    def why_no_measure(self) -> str:
        """Say in a sentence why the speeds are no measure of the run; empty where they are one, or void anyway."""
        return {"interrupted": INTERRUPTED, "partial": PARTIAL}.get(self.state, "")


def performance_of(run: RunEvidence) -> Performance:
    """Summarise the requests that this run measured itself and that were answered; kept rows never count here."""
    everything = own_rows(run.facts)
    asked = everything.filter(polars.col("error_code").ne_missing(UNREADABLE_SAMPLE))
    own = everything.filter(polars.col("status") == "ok")
    measured = set(everything["claim_id"].to_list())
    claims = [claim for claim in run.generating if claim.id in measured]
    offsets = clock_offsets(run.generating)
    is_one_engine = isinstance(run.spec.target, EndpointTarget)
    window, failed = window_s(everything, offsets if is_one_engine else None), asked.height - own.height
    # An answer without a token came at no time at all: to whoever waits for it, it failed.
    silent = own["latency_ns"].null_count()
    shared = on_one_clock(everything, offsets)
    values = {name: ordered(own[column].drop_nulls().to_numpy() / NS_PER_MS) for name, column, _ in _SHOWN}
    values = {name: found for name, found in values.items() if found.n}
    times = {name: found.describe() for name, found in values.items()}
    tokens = own.filter(ANSWERED)["completion_tokens"]
    total_tokens = int(tokens.cast(polars.Int64).sum()) if len(tokens) and not tokens.null_count() else None
    arrivals, limits = run.spec.scenario.arrivals, run.spec.scenario.slo.limits_ms
    ttft = times.get("ttft_user_ms")
    missing = count(run).missing
    return Performance(
        times=times,
        values=values,
        percentiles={
            name: percentiles_of(
                found.values.tolist(), failed=0 if name in _OF_THE_CLIENT else failed + silent + missing
            )
            for name, found in values.items()
        },
        gaps=gaps_ms(run.events) if run.events is not None and run.events.gap_counts.any() else None,
        failed=failed,
        window_s=window,
        samples_per_s=(own.height - silent) / window if window else None,
        output_tokens_per_s=total_tokens / window if window and total_tokens is not None else None,
        output_tokens=total_tokens,
        goodput=goodput_in(asked, limits, scheduled=asked.height + missing, window_s=window),
        limits=judged_limits(asked, limits, failed=failed + silent + missing) if asked.height + missing else (),
        token_sources=tuple(sorted(own["token_source"].drop_nulls().unique().to_list())),
        parts=own["claim_id"].n_unique(),
        is_interrupted=_is_interrupted(own, run.generating),
        is_partial=run.is_stopped or bool(run.facts["is_kept"].any()),
        hosts=len({claim.host for claim in claims}),
        resources=None
        if is_one_engine
        else resources_of(claims, answers=own.height - silent, tokens=total_tokens, window_s=window),
        progress=progress_of(shared, run.events) if shared is not None else None,
        validity=validity_of(
            everything,
            missing=missing,
            claims=claims,
            ttft_p50_ms=ttft.p50 if ttft is not None else None,
            process=arrivals.process if arrivals is not None else None,
            cv=arrivals.cv if arrivals is not None else 1.0,
        ),
        cost=cost_of(everything, claims, window_s=window),
        price=cost_of_run(run.spec, asked, window_s=window),
    )


def times_table(performances: Sequence[tuple[str, Performance]], *, name: str = "times") -> Table:
    """Lay the percentiles of one or several runs out, kind of time by kind of time."""
    several = len(performances) > 1
    rows: list[tuple[Cell, ...]] = []
    for key, _, label in _SHOWN:
        for run, performance in performances:
            times = performance.times.get(key)
            if times is None:
                continue
            found = [_percentile(one) for one in performance.percentiles[key]]
            cells = (_estimate(times.mean), *found, _estimate(times.max))
            rows.append((label, *((marked(run, performance.validity),) if several else ()), *cells, times.n))
    titles = ("mean, ms", "p50, ms", "p90, ms", "p99, ms", "max, ms")
    is_void = any(performance.validity.is_invalid for _, performance in performances)
    return Table(
        name=name,
        title=f"Times\u00a0· {INVALID}" if is_void and not several else "Times",
        columns=(
            Column(title=""),
            *((Column(title="run"),) if several else ()),
            *(Column(title=title, kind="estimate") for title in titles),
            Column(title="requests", kind="number"),
        ),
        rows=tuple(rows),
        note=(
            "Percentiles are nearest rank on exact records of answered requests, by the client's one clock. Below "
            "them, where no request failed, their 95 % intervals: they lie between two measured values, and without "
            "one there are too few requests."
        ),
        is_collapsed=several,
    )


def adjusted_table(performances: Sequence[tuple[str, Performance]]) -> Table | None:
    """Lay percentiles in which failures are the slowest out, and what is certain of them; None where nothing failed."""
    several = len(performances) > 1
    rows = [
        (
            label,
            *((marked(run, performance.validity),) if several else ()),
            f"p{one.percent:g}",
            _estimate(one.plain),
            Estimate(value=one.adjusted, low=one.low, high=one.high, digits=_digits(one.adjusted)),
            _estimate(one.certified),
            one.failed,
        )
        for key, _, label in _SHOWN
        for run, performance in performances
        if key not in _OF_THE_CLIENT
        for one in performance.percentiles.get(key, ())
        if one.failed
    ]
    if not rows:
        return None
    return Table(
        name="adjusted-times",
        title="Times, failures as the slowest",
        columns=(
            Column(title=""),
            *((Column(title="run"),) if several else ()),
            Column(title="percentile"),
            *(Column(title=title, kind="estimate") for title in ("answered, ms", "all requests, ms", "certified, ms")),
            Column(title="failed", kind="number"),
        ),
        rows=tuple(rows),
        note=(
            "A request that failed, or got an answer without a token, takes for ever; a dash is infinite, or what too "
            "few requests cannot certify. Certified: with 99 % confidence the true percentile is not above it "
            "(MLPerf's early stopping)."
        ),
        is_collapsed=True,
    )


def _percentile(one: Percentile) -> Estimate:
    """A percentile of answered requests; its interval is that of all, so failures leave none to show beside it."""
    low, high = (one.low, one.high) if not one.failed else (None, None)
    return Estimate(value=one.plain, low=low, high=high, digits=_digits(one.plain))


def _estimate(value: float | None) -> Estimate:
    return Estimate(value=value, digits=_digits(value))


def _is_interrupted(facts: polars.DataFrame, claims: Sequence[ClaimEvidence]) -> bool:
    measured = set(facts["claim_id"].to_list())
    jobs = [claim.job_id for claim in claims if claim.id in measured]
    return len(set(jobs)) < len(jobs)


def _digits(value: float | None) -> int:
    return 2 if value is None or value < 10 else 1 if value < 100 else 0
