"""Result of `vlmhyperbench load`, computed from the rows of its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from vlmhyperbench.analysis.distributions import distribution_of
from vlmhyperbench.analysis.load_design import Grouping, OpenLoop
from vlmhyperbench.analysis.results import Distribution, Gate
from vlmhyperbench.analysis.times import Times, sum_counts, times_of_frame
from vlmhyperbench.analysis.validity import (
    ERROR_SHARE,
    MAX_BUSY_SHARE,
    Sends,
    at_most,
    check_closed_lag,
    check_open_lag,
    check_sends,
)
from vlmhyperbench.domain.causes import FailedRequest, failure_of, read_failure
from vlmhyperbench.domain.failure_groups import FailureGroup, group_failures
from vlmhyperbench.domain.failures import Failure
from vlmhyperbench.domain.units import NS_PER_S
from vlmhyperbench_sdk.load import EndLine
from vlmhyperbench_sdk.types import JsonObject

if TYPE_CHECKING:
    import polars as pl

    from vlmhyperbench.analysis.interference import Interference
    from vlmhyperbench.analysis.phase_statistics import Statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseResult:
    """How many requests of one phase succeeded."""

    no: int
    requests: int
    ok: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetUsed:
    """Preset whose rules a load followed."""

    name: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """Energy and memory of the measured device over the window."""

    energy_j: float | None = None
    peak_memory_bytes: int | None = None
    reason: str | None = "a bare URL shows no device; a run takes its worker's samples"
    """Why both are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """`data` of `vlmhyperbench load --json`; times are milliseconds, of the requests that succeeded."""

    valid: bool
    outcome: str
    """`complete`, or `cancelled`: the numbers then cover the requests that had ended."""
    gates: tuple[Gate, ...]
    requests: Mapping[str, int]
    errors: Mapping[str, int]
    """Code of an error → number of requests."""
    failures: tuple[FailureGroup, ...]
    """Answers of the server to failed requests, the most frequent first."""
    duration_s: float
    metrics: Mapping[str, Distribution | float | None]
    tokens: Mapping[str, int | str | None]
    """`events_estimated` counts answers whose ITL and TPOT use an estimated number of tokens per event."""
    client: Mapping[str, float | int | str | Mapping[str, float | None] | None]
    schedule_sha256: str
    phases: tuple[PhaseResult, ...]
    statistics: Statistics
    arrivals: Sends | None = None
    """Comparison of sends with the schedule; None for a closed loop."""
    interference: Interference | None = None
    """Comparison with the baseline; None where none was measured."""
    preset: PresetUsed | None = None
    extra_body: JsonObject = field(default_factory=dict)
    """Further fields of every request, as the user gave them."""
    device: DeviceUse = field(default_factory=DeviceUse)

    def with_gates(self, *gates: Gate) -> LoadResult:
        """Add gates; the result is valid only if they hold too."""
        return replace(self, gates=(*self.gates, *gates), valid=self.valid and all(gate.ok for gate in gates))


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
    """Compute the result of one phase.

    Args:
        record: Rows of all phases, in order of phases and ordinals.
        end: Last line of the load generator, about itself.
        measured_phase: Phase to describe.
        scheduled: Number of requests that were scheduled in the phase.
        slo: Name of a limit → milliseconds.
        certainty: Confidence with which limits are checked; None: MLPerf's 99 %.
        open_loop: Schedule; None for a closed loop.
        grouping: Number of streams, and what requests are grouped by; None where unknown.

    Raises:
        InvalidInput: the SLO names a time that is not measured.
    """
    import polars as pl

    from vlmhyperbench.analysis.phase_statistics import describe_phase, interference_of

    rows = record.filter(pl.col("phase") == measured_phase)
    ok = rows.filter(pl.col("status") == "ok")
    all_times = times_of_frame(rows)
    # An answer without a token has no time: its user waits forever.
    is_answered = (rows["status"] == "ok").to_numpy() & ~np.isnan(all_times.latency)
    good, times = rows.filter(is_answered), all_times.of(is_answered)
    duration_s = _duration_s(rows)
    distributions, lag = _metrics(times), distribution_of(all_times.queue)
    statistics = describe_phase(
        rows,
        all_times,
        is_answered,
        # Requests that were cancelled before they were sent are no failures.
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
        baseline = record.filter((pl.col("phase") == grouping.baseline_phase) & (pl.col("status") == "ok"))
        interference = interference_of(times, times_of_frame(baseline))
    sends = None if open_loop is None else _sends(rows, open_loop)
    gates = (
        at_most("unaccounted", float(scheduled - rows.height), 0.0),
        at_most("error_share", (scheduled - ok.height) / scheduled if scheduled else None, ERROR_SHARE),
        at_most("client_busy_share", end.loop_busy_share, MAX_BUSY_SHARE),
        *(
            check_closed_lag(times.queue, times.ttft_user, times.latency)
            if sends is None
            else (*check_open_lag(lag.p99, distributions["ttft_user_ms"].p50), *sends.gates)
        ),
    )
    return LoadResult(
        valid=end.outcome == "complete" and all(gate.ok for gate in gates),
        outcome=end.outcome,
        gates=gates,
        requests=_requests(rows, scheduled=scheduled, without_token=ok.height - good.height),
        errors=_count_errors(rows),
        failures=tuple(group_failures(read_failures(rows), ok=ok.height)),
        duration_s=duration_s,
        metrics={
            **distributions,
            "output_tokens_per_s": _rate(sum_counts(good["completion_tokens"]), duration_s),
            "requests_per_s": _rate(good.height, duration_s),
            "goodput_per_s": None if goodput is None else goodput.per_s,
        },
        tokens=_tokens(rows, ok, estimated=_count_estimated(good, times)),
        client=_client(end, lag),
        schedule_sha256=end.schedule_sha256,
        phases=_phases(record),
        statistics=statistics,
        interference=interference,
        arrivals=sends,
    )


def _sends(rows: pl.DataFrame, open_loop: OpenLoop) -> Sends:
    """Compare the sends with the schedule; that of a conversation is the one of its first turn."""
    sent_ns = rows.filter(rows["turn"] == 0)["sent_ns"].drop_nulls().to_numpy()
    return check_sends(open_loop.process, open_loop.scheduled_ns, sent_ns, cv=open_loop.cv)


def _requests(rows: pl.DataFrame, *, scheduled: int, without_token: int) -> dict[str, int]:
    statuses = rows["status"].to_list()
    return {
        "scheduled": scheduled,
        "sent": rows["sent_ns"].count(),
        **{status: statuses.count(status) for status in ("ok", "error", "timeout", "skipped")},
        "ok_without_token": without_token,
    }


def _tokens(rows: pl.DataFrame, ok: pl.DataFrame, *, estimated: int) -> dict[str, int | str | None]:
    sources = rows["token_source"].drop_nulls()
    return {
        "prompt": sum_counts(ok["prompt_tokens"]) if ok.height else None,
        "completion": sum_counts(ok["completion_tokens"]) if ok.height else None,
        "source": sources[0] if len(sources) else None,
        "events_estimated": estimated,
    }


def _phases(record: pl.DataFrame) -> tuple[PhaseResult, ...]:
    phases = record.sort("phase").partition_by("phase")
    return tuple(
        PhaseResult(no=rows["phase"][0], requests=rows.height, ok=int((rows["status"] == "ok").sum()))
        for rows in phases
    )


def _metrics(times: Times) -> dict[str, Distribution]:
    reasoning, content = distribution_of(times.first_reasoning), distribution_of(times.first_content)
    by_kind = {"first_reasoning_ms": reasoning, "first_content_ms": content} if reasoning.n else {}
    return {
        "ttft_user_ms": distribution_of(times.ttft_user),
        "ttft_service_ms": distribution_of(times.ttft_service),
        **by_kind,
        "itl_ms": distribution_of(times.itl),
        "tpot_ms": distribution_of(times.tpot),
        "latency_ms": distribution_of(times.latency),
        "queue_ms": distribution_of(times.queue),
    }


def _count_estimated(good: pl.DataFrame, times: Times) -> int:
    """Count answers that have gaps and whose tokens per event are estimated."""
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
        "reopened": end.reopened,
        "transport": end.transport,
        "instants": end.instants,
        "receiver": end.receiver,
        "opened_beyond_pool": end.idle_opened,
    }


def _duration_s(rows: pl.DataFrame) -> float:
    """Return the time from the first scheduled instant to the last end of any request, including failed ones.

    A request that could not be sent has no end; its scheduled instant counts instead.
    """
    start, due, end = rows["scheduled_ns"].min(), rows["scheduled_ns"].max(), rows["stream_end_ns"].max()
    if not isinstance(start, int) or not isinstance(due, int):
        return 0.0
    return (max(due, end if isinstance(end, int) else due) - start) / NS_PER_S


def _rate(count: int | None, duration_s: float) -> float | None:
    return count / duration_s if count is not None and duration_s > 0 else None


def read_failures(rows: pl.DataFrame) -> list[tuple[FailedRequest, Failure, int]]:
    """Return each reason for which requests failed, whose failure it is, and the number of requests."""
    columns = ("status", "http_status", "error")
    counted = rows.group_by(columns, maintain_order=True).len().iter_rows()
    read = [(read_failure(status=status, http_status=code, error=error), n) for status, code, error, n in counted]
    return [(failed, failure_of(failed), count) for failed, count in read if failed is not None]


def _count_errors(rows: pl.DataFrame) -> dict[str, int]:
    counts: dict[str, int] = {}
    for error in rows["error"].drop_nulls():
        code = error.partition(":")[0]
        counts[code] = counts.get(code, 0) + 1
    return counts
