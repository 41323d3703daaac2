"""Read a record back and state what it says: the result of `vlmhyperbench load`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vlmhyperbench.analysis.performance import Distribution
from vlmhyperbench.domain.arrivals import Instants, Process
from vlmhyperbench.domain.causes import FailedRequest, failure_of, read_failure
from vlmhyperbench.domain.failure_groups import FailureGroup, group_failures
from vlmhyperbench.domain.failures import Failure
from vlmhyperbench.load.times import Times, describe, times_of_frame
from vlmhyperbench.load.validity import (
    ERROR_SHARE,
    MOST_BUSY_SHARE,
    Gate,
    Sends,
    at_most,
    judge_closed_lag,
    judge_open_lag,
    judge_sends,
)
from vlmhyperbench_sdk.errors import NotFound
from vlmhyperbench_sdk.load import EndLine
from vlmhyperbench_sdk.types import JsonObject

if TYPE_CHECKING:
    import polars as pl

    from vlmhyperbench.analysis.interference import Interference
    from vlmhyperbench.load.statistics import Statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseResult:
    """What one phase came to."""

    no: int
    requests: int
    ok: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLoop:
    """How the measured phase was to be sent, where it was an open loop; of conversations, their first turns."""

    process: Process
    scheduled_ns: Instants
    """From the phase's start. Shape: (requests,), or (conversations,)."""
    cv: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """By what requests are grouped."""

    streams: int | None = None
    """Requests under way at a time; 1 of an open loop, whose streams are no one's."""
    is_by_stream: bool = False
    samples_per_query: int = 0
    """So many requests that follow each other in order of ordinals are one query; 0: there are no queries."""
    baseline_phase: int | None = None
    """The phase that sent one request after the other, to compare with."""
    pixels: Sequence[int] | None = None
    """Of each request's synthetic images, in order of ordinals. Shape: (requests,)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetUsed:
    """Whose rules a load followed."""

    name: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """What the measured device used over the window."""

    energy_j: float | None = None
    peak_memory_bytes: int | None = None
    reason: str | None = "a bare URL shows no device; a run takes its worker's samples"
    """Why there is neither."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """`data` of `vlmhyperbench load --json`; times in milliseconds, of the requests that succeeded."""

    valid: bool
    outcome: str
    """complete; or cancelled: what follows is what was done by then."""
    gates: tuple[Gate, ...]
    requests: Mapping[str, int]
    errors: Mapping[str, int]
    """Code of the error → how often."""
    failures: tuple[FailureGroup, ...]
    """What the server said to those that failed, the most frequent first."""
    duration_s: float
    metrics: Mapping[str, Distribution | float | None]
    tokens: Mapping[str, int | str | None]
    """`events_estimated`: answers whose ITL and TPOT rest on tokens that were spread over their events."""
    client: Mapping[str, float | int | str | Mapping[str, float | None] | None]
    schedule_sha256: str
    phases: tuple[PhaseResult, ...]
    statistics: Statistics
    arrivals: Sends | None = None
    """Of an open loop."""
    interference: Interference | None = None
    """Where a baseline was measured."""
    preset: PresetUsed | None = None
    extra_body: JsonObject = field(default_factory=dict)
    """Fields that every request held besides its question, as the user gave them."""
    device: DeviceUse = field(default_factory=DeviceUse)


def read_record(folder: Path) -> pl.DataFrame:
    """Read every sealed segment of a record, in order of phases and ordinals, without what was said.

    Raises:
        NotFound: there is no segment.
    """
    import polars as pl

    paths = sorted(folder.glob("*.parquet"))
    if not paths:
        raise NotFound(f"{folder.name} holds no sealed segment.", cure="See why the load generator ended.")
    said = ("text", "reasoning")
    return pl.scan_parquet(paths).drop(said).sort("phase", "ordinal").collect()


def result_of(
    record: pl.DataFrame,
    end: EndLine,
    *,
    measured_phase: int,
    scheduled: int,
    slo: Mapping[str, float] | None = None,
    certainty: float | None = None,
    open_loop: OpenLoop | None = None,
    grouping: Grouping | None = None,
) -> LoadResult:
    """State the result of one phase; `scheduled` is how many requests it was to have.

    Args:
        record: Rows as `read_record` gives them.
        end: What measuring itself came to.
        measured_phase: The phase whose result it is.
        scheduled: How many requests it was to have.
        slo: Limits in ms.
        certainty: With which a limit must be kept to be kept for certain; None: MLPerf's 99 %.
        open_loop: How it was to be sent; None for a closed loop.
        grouping: How many streams there were, and what requests are grouped by; None: not known, and by nothing.

    Raises:
        InvalidInput: the SLO names something that is not measured.
    """
    import polars as pl

    from vlmhyperbench.load.statistics import describe_phase, interference_of

    rows = record.filter(pl.col("phase") == measured_phase)
    ok = rows.filter(pl.col("status") == "ok")
    all_times = times_of_frame(rows)
    # An answer without a token came at no time at all: to whoever waits for it, it failed.
    is_answered = (rows["status"] == "ok").to_numpy() & ~np.isnan(all_times.latency)
    good, times = rows.filter(is_answered), all_times.of(is_answered)
    duration_s = _duration_s(rows)
    distributions, lag = _metrics(times), describe(all_times.queue)
    statistics = describe_phase(
        rows,
        all_times,
        is_answered,
        # What was cancelled before its turn did not fail.
        scheduled=scheduled if end.outcome == "complete" else rows.height,
        duration_s=duration_s,
        slo=slo or {},
        certainty=certainty,
        grouping=grouping or Grouping(),
        is_open_loop=open_loop is not None,
    )
    goodput = statistics.goodput
    interference = None
    if grouping is not None and grouping.baseline_phase is not None:
        alone = record.filter((pl.col("phase") == grouping.baseline_phase) & (pl.col("status") == "ok"))
        interference = interference_of(times, times_of_frame(alone))
    sends = None
    if open_loop is not None:
        # Of a conversation, the schedule says when its first turn leaves.
        sent_ns = rows.filter(pl.col("turn") == 0)["sent_ns"].drop_nulls().to_numpy()
        sends = judge_sends(open_loop.process, open_loop.scheduled_ns, sent_ns, cv=open_loop.cv)
    gates = (
        at_most("unaccounted", float(scheduled - rows.height), 0.0),
        at_most("error_share", (scheduled - ok.height) / scheduled if scheduled else None, ERROR_SHARE),
        at_most("client_busy_share", end.loop_busy_share, MOST_BUSY_SHARE),
        *(
            judge_closed_lag(times.queue, times.ttft_user, times.latency)
            if sends is None
            else (*judge_open_lag(lag.p99, distributions["ttft_user_ms"].p50), *sends.gates)
        ),
    )
    statuses = rows["status"].to_list()
    sources = rows["token_source"].drop_nulls()
    return LoadResult(
        valid=end.outcome == "complete" and all(gate.ok for gate in gates),
        outcome=end.outcome,
        gates=gates,
        requests={
            "scheduled": scheduled,
            "sent": rows["sent_ns"].count(),
            **{status: statuses.count(status) for status in ("ok", "error", "timeout", "skipped")},
            "ok_without_token": ok.height - good.height,
        },
        errors=_count_errors(rows),
        failures=tuple(group_failures(read_failures(rows), ok=ok.height)),
        duration_s=duration_s,
        metrics={
            **distributions,
            "output_tokens_per_s": _rate(_sum(good["completion_tokens"]) if good.height else 0, duration_s),
            "requests_per_s": _rate(good.height, duration_s),
            "goodput_per_s": None if goodput is None else goodput.per_s,
        },
        tokens={
            "prompt": _sum(ok["prompt_tokens"]),
            "completion": _sum(ok["completion_tokens"]),
            "source": sources[0] if len(sources) else None,
            "events_estimated": _count_estimated(good, times),
        },
        client=_client(end, lag),
        schedule_sha256=end.schedule_sha256,
        phases=tuple(
            PhaseResult(no=no, requests=count, ok=ok)
            for no, count, ok in record.group_by("phase")
            .agg(pl.len().alias("requests"), (pl.col("status") == "ok").sum().alias("ok"))
            .sort("phase")
            .iter_rows()
        ),
        statistics=statistics,
        interference=interference,
        arrivals=sends,
    )


def _metrics(times: Times) -> dict[str, Distribution]:
    reasoning = describe(times.first_reasoning)
    apart = {"first_reasoning_ms": reasoning, "first_content_ms": describe(times.first_content)} if reasoning.n else {}
    return {
        "ttft_user_ms": describe(times.ttft_user),
        "ttft_service_ms": describe(times.ttft_service),
        **apart,
        "itl_ms": describe(times.itl),
        "tpot_ms": describe(times.tpot),
        "latency_ms": describe(times.latency),
        "queue_ms": describe(times.queue),
    }


def _count_estimated(good: pl.DataFrame, times: Times) -> int:
    """Count answers with gaps whose events' tokens nobody counted; an answer of one burst has none to be wrong."""
    is_estimated = good["event_token_source"].eq_missing("estimated").to_numpy()
    return int((is_estimated & ~np.isnan(times.longest_itl)).sum())


def _client(end: EndLine, lag: Distribution) -> dict[str, float | int | str | Mapping[str, float | None] | None]:
    return {
        "cpu_s": end.cpu_s,
        "measuring_cpu_s": end.measuring_cpu_s,
        "peak_rss_bytes": end.peak_rss_bytes,
        "measuring_peak_rss_bytes": end.measuring_peak_rss_bytes,
        "startup_s": end.startup_s,
        "processes": end.processes,
        "busy_share": end.loop_busy_share,
        "is_realtime": end.is_realtime,
        "send_lag_ms": {"p50": lag.p50, "p99": lag.p99},
        "resent": end.resent,
        "transport": end.transport,
        "instants": end.instants,
        "receiver": end.receiver,
        "opened_beyond_pool": end.idle_opened,
    }


def _duration_s(rows: pl.DataFrame) -> float:
    """From the first scheduled instant to the last end of any request; failed ones take part.

    A request that could not be sent has no end: it took its time until it was due, at least.
    """
    start, due, end = rows["scheduled_ns"].min(), rows["scheduled_ns"].max(), rows["stream_end_ns"].max()
    if not isinstance(start, int) or not isinstance(due, int):
        return 0.0
    return (max(due, end if isinstance(end, int) else due) - start) / 1e9


def _rate(count: int | None, duration_s: float) -> float | None:
    return count / duration_s if count is not None and duration_s > 0 else None


def read_failures(rows: pl.DataFrame) -> list[tuple[FailedRequest, Failure, int]]:
    """Read what requests failed with, and how often each."""
    columns = ("status", "http_status", "error")
    counted = rows.group_by(columns, maintain_order=True).len().iter_rows()
    found = [(read_failure(status=status, http_status=code, error=error), n) for status, code, error, n in counted]
    return [(failed, failure_of(failed), count) for failed, count in found if failed is not None]


def _count_errors(rows: pl.DataFrame) -> dict[str, int]:
    counts: dict[str, int] = {}
    for error in rows["error"].drop_nulls():
        code = error.partition(":")[0]
        counts[code] = counts.get(code, 0) + 1
    return counts


def _sum(counts: pl.Series) -> int | None:
    import polars as pl

    # A sum of 32-bit counts is one of 32 bits, too.
    return int(counts.cast(pl.Int64).sum()) if len(counts) and counts.null_count() == 0 else None
