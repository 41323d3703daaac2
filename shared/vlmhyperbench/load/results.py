"""Read a record back and state what it says: the result of `vlmhyperbench load`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vlmhyperbench.analysis.performance import (
    Distribution,
    MeasuredRequest,
    RequestTimes,
    distribution_of,
    throughput_of,
    times_of,
)
from vlmhyperbench_sdk.errors import NotFound
from vlmhyperbench_sdk.load import EndLine

MOST_BUSY_SHARE = 0.7
LAG_MS = 1.0
LAG_SHARE_OF_TTFT = 0.01
ERROR_SHARE = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """One row of a record with its times."""

    phase: int
    status: str
    error: str | None
    sent_ns: int | None
    token_source: str | None
    measured: MeasuredRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One condition without which the numbers mean little."""

    name: str
    ok: bool
    value: float | None
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseResult:
    """What one phase came to."""

    no: int
    requests: int
    ok: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """`data` of `vlmhyperbench load --json`; times in milliseconds, of the requests that succeeded."""

    valid: bool
    gates: tuple[Gate, ...]
    requests: Mapping[str, int]
    errors: Mapping[str, int]
    """Code of the error → how often."""
    duration_s: float
    metrics: Mapping[str, Distribution | float | None]
    tokens: Mapping[str, int | str | None]
    client: Mapping[str, float | int | Mapping[str, float | None] | None]
    schedule_sha256: str
    phases: tuple[PhaseResult, ...]


def read_record(folder: Path) -> list[RecordedRequest]:
    """Read every sealed segment of a record, in order of phases and ordinals.

    Raises:
        NotFound: there is no segment.
    """
    import polars as pl

    paths = sorted(folder.glob("*.parquet"))
    if not paths:
        raise NotFound(f"{folder.name} holds no sealed segment.", cure="See why the load generator ended.")
    frame = pl.concat([pl.read_parquet(path) for path in paths]).sort("phase", "ordinal")
    return [
        RecordedRequest(
            phase=row["phase"],
            status=row["status"],
            error=row["error"],
            sent_ns=row["sent_ns"],
            token_source=row["token_source"],
            measured=MeasuredRequest(
                is_ok=row["status"] == "ok",
                scheduled_ns=row["scheduled_ns"],
                end_ns=row["stream_end_ns"],
                times=times_of(
                    scheduled_ns=row["scheduled_ns"],
                    sent_ns=row["sent_ns"],
                    event_ns=row["event_ns"],
                    event_kind=row["event_kind"],
                    event_tokens=row["event_tokens"],
                    completion_tokens=row["completion_tokens"],
                ),
                prompt_tokens=row["prompt_tokens"],
                completion_tokens=row["completion_tokens"],
            ),
        )
        for row in frame.drop("text", "reasoning").iter_rows(named=True)
    ]


def result_of(
    recorded: Sequence[RecordedRequest],
    end: EndLine,
    *,
    measured_phase: int,
    scheduled: int,
    slo: Mapping[str, float] | None = None,
) -> LoadResult:
    """State the result of one phase; `scheduled` is how many requests it was to have.

    Raises:
        InvalidInput: the SLO names something that is not measured.
    """
    rows = [row for row in recorded if row.phase == measured_phase]
    good = [row.measured for row in rows if row.measured.is_ok]
    rates = throughput_of([row.measured for row in rows], slo)
    metrics = _metrics([request.times for request in good])
    ttft = metrics["ttft_user_ms"].p50
    gates = (
        _at_most("unaccounted", float(scheduled - len(rows)), 0.0),
        _at_most("error_share", 1 - len(good) / scheduled if scheduled else None, ERROR_SHARE),
        _at_most("client_busy_share", end.loop_busy_share, MOST_BUSY_SHARE),
        _at_most("send_lag_p99_ms", end.send_lag_p99_ms, max(LAG_MS, LAG_SHARE_OF_TTFT * (ttft or 0.0))),
    )
    return LoadResult(
        valid=end.outcome == "complete" and all(gate.ok for gate in gates),
        gates=gates,
        requests={
            "scheduled": scheduled,
            "sent": sum(row.sent_ns is not None for row in rows),
            **{status: sum(row.status == status for row in rows) for status in ("ok", "error", "timeout")},
        },
        errors=_count_errors(rows),
        duration_s=rates.duration_s,
        metrics={
            **metrics,
            "output_tokens_per_s": rates.output_tokens_per_s,
            "requests_per_s": rates.requests_per_s,
            "goodput_per_s": rates.goodput_per_s,
        },
        tokens={
            "prompt": _sum([request.prompt_tokens for request in good]),
            "completion": _sum([request.completion_tokens for request in good]),
            "source": next((row.token_source for row in rows if row.token_source is not None), None),
        },
        client={
            "cpu_s": end.cpu_s,
            "peak_rss_bytes": end.peak_rss_bytes,
            "startup_s": end.startup_s,
            "processes": end.processes,
            "busy_share": end.loop_busy_share,
            "send_lag_ms": {"p50": end.send_lag_p50_ms, "p99": end.send_lag_p99_ms},
        },
        schedule_sha256=end.schedule_sha256,
        phases=tuple(
            PhaseResult(
                no=no,
                requests=sum(row.phase == no for row in recorded),
                ok=sum(row.phase == no and row.measured.is_ok for row in recorded),
            )
            for no in sorted({row.phase for row in recorded})
        ),
    )


def _metrics(times: Sequence[RequestTimes]) -> dict[str, Distribution]:
    return {
        "ttft_user_ms": distribution_of(one.ttft_user_ns for one in times),
        "ttft_service_ms": distribution_of(one.ttft_service_ns for one in times),
        "itl_ms": distribution_of(gap for one in times for gap in one.itl_ns),
        "tpot_ms": distribution_of(one.tpot_ns for one in times),
        "latency_ms": distribution_of(one.latency_ns for one in times),
        "queue_ms": distribution_of(one.queue_ns for one in times),
    }


def _at_most(name: str, value: float | None, limit: float) -> Gate:
    return Gate(name=name, ok=value is not None and value <= limit, value=value, limit=limit)


def _count_errors(rows: Sequence[RecordedRequest]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in rows:
        if row.error is not None:
            code = row.error.partition(":")[0]
            counts[code] = counts.get(code, 0) + 1
    return counts


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if counts and len(known) == len(counts) else None
