"""Times and rates of a run's own requests, as numbers and as rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars

from vlmhyperbench.analysis.performance import Distribution, distribution_of
from vlmhyperbench.reports.document import Column, Estimate, Table
from vlmhyperbench.reports.evidence import RunEvidence
from vlmhyperbench.reports.records import ClaimEvidence

_MS = 1e6
_SHOWN: tuple[tuple[str, str, str], ...] = (
    ("latency_ms", "latency_ns", "latency, scheduled to last token"),
    ("ttft_user_ms", "ttft_user_ns", "TTFT from scheduled (the user's)"),
    ("ttft_service_ms", "ttft_service_ns", "TTFT from sent (the service's)"),
    ("tpot_ms", "tpot_ns", "TPOT, after the first token"),
    ("queue_ms", "queue_ns", "client queue, scheduled to sent"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """What a run's own answered requests say of speed; None where it was not measured."""

    times: dict[str, Distribution]
    values: dict[str, list[float]]
    """Milliseconds per request, by the same names."""
    window_s: float | None
    """From the first request scheduled to the last stream's end, over all claims, overlaps once."""
    samples_per_s: float | None
    output_tokens_per_s: float | None
    output_tokens: int | None
    token_sources: tuple[str, ...]
    parts: int
    """Claims that measured it: one per shard, and one more for each interruption."""
    is_interrupted: bool
    """A job was taken up again by another claim, so that times before and after a restart are mixed."""
    is_partial: bool
    """Some answers are kept of another run, so that times are only of the others."""
    peak_memory_bytes: int | None

    @property
    def is_no_measure(self) -> bool:
        """Whether the run's speeds are not those of its whole data set, measured in one go."""
        return self.is_interrupted or self.is_partial


def performance_of(run: RunEvidence) -> Performance:
    """Summarise the requests that this run measured itself and that were answered; kept rows never count here."""
    everything = _own(run)
    own = everything.filter(polars.col("status") == "ok")
    values = {name: _milliseconds(own, column) for name, column, _ in _SHOWN}
    window = _window_s(everything, run.generating)
    measured = set(everything["claim_id"].to_list())
    tokens = own["completion_tokens"].drop_nulls()
    total_tokens = int(tokens.sum()) if len(tokens) else None
    return Performance(
        times={name: distribution_of(own[column]) for name, column, _ in _SHOWN if values[name]},
        values=values,
        window_s=window,
        samples_per_s=own.height / window if window else None,
        output_tokens_per_s=total_tokens / window if window and total_tokens is not None else None,
        output_tokens=total_tokens,
        token_sources=tuple(sorted(own["token_source"].drop_nulls().unique().to_list())),
        parts=own["claim_id"].n_unique(),
        is_interrupted=_is_interrupted(own, run.generating),
        is_partial=bool(run.facts["is_kept"].any()),
        peak_memory_bytes=_peak_memory([one for one in run.generating if one.id in measured]),
    )


def times_table(performances: Sequence[tuple[str, Performance]], *, name: str = "times") -> Table:
    """Lay the percentiles of one or several runs out, kind of time by kind of time."""
    several = len(performances) > 1
    rows = []
    for key, _, label in _SHOWN:
        for run, performance in performances:
            times = performance.times.get(key)
            if times is None:
                continue
            numbers = (times.mean, times.p50, times.p90, times.p99, times.max)
            cells = tuple(Estimate(value=value, digits=_digits(value)) for value in numbers)
            rows.append((label, *((run,) if several else ()), *cells, times.n))
    titles = ("mean, ms", "p50, ms", "p90, ms", "p99, ms", "max, ms")
    return Table(
        name=name,
        title="Times",
        columns=(
            Column(title=""),
            *((Column(title="run"),) if several else ()),
            *(Column(title=title, kind="number") for title in titles),
            Column(title="requests", kind="number"),
        ),
        rows=tuple(rows),
        note="Percentiles are nearest rank on exact records of answered requests, by the client's one clock.",
    )


def _own(run: RunEvidence) -> polars.DataFrame:
    return run.facts.filter(~polars.col("is_kept") & (polars.col("origin") == "live"))


def _milliseconds(facts: polars.DataFrame, column: str) -> list[float]:
    return [float(value) / _MS for value in facts[column].drop_nulls()]


def _window_s(facts: polars.DataFrame, claims: Sequence[ClaimEvidence]) -> float | None:
    """Length of the union of the claims' windows; clocks of different boots meet at their anchors."""
    offsets = {
        claim.id: claim.anchor_wall_ns - claim.anchor_monotonic_ns
        for claim in claims
        if claim.anchor_wall_ns is not None and claim.anchor_monotonic_ns is not None
    }
    spans = facts.group_by("claim_id").agg(
        polars.col("scheduled_ns").min().alias("low"),
        polars.max_horizontal("stream_end_ns", polars.col("scheduled_ns") + polars.col("latency_ns"))
        .max()
        .alias("high"),
    )
    rows = [(str(claim), low, high) for claim, low, high in spans.iter_rows() if low is not None and high is not None]
    if len(rows) > 1 and any(claim not in offsets for claim, _, _ in rows):
        return float(sum(high - low for _, low, high in rows)) / 1e9
    covered, end = 0, None
    for low, high in sorted((low + offsets.get(claim, 0), high + offsets.get(claim, 0)) for claim, low, high in rows):
        start = low if end is None else max(low, end)
        covered += max(0, high - start)
        end = high if end is None else max(end, high)
    return float(covered) / 1e9 if covered > 0 else None


def _is_interrupted(facts: polars.DataFrame, claims: Sequence[ClaimEvidence]) -> bool:
    measured = set(facts["claim_id"].to_list())
    jobs = [claim.job_id for claim in claims if claim.id in measured]
    return len(set(jobs)) < len(jobs)


def _peak_memory(claims: Sequence[ClaimEvidence]) -> int | None:
    """The accelerators' peak where there are any, else the engine's resident memory."""
    for key in ("accelerator_memory_used_bytes_peak", "engine_rss_bytes_peak"):
        found = [value for claim in claims if isinstance(value := (claim.resources or {}).get(key), int)]
        if found:
            return max(found)
    return None


def _digits(value: float | None) -> int:
    return 2 if value is None or value < 10 else 1 if value < 100 else 0
