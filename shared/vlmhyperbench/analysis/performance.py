"""From the instants of requests to latency, TTFT, ITL, TPOT, throughput and goodput; pure, standard library only.

The load generator's parent imports this, so numpy stays out. Definitions: metrics.md ("Performance") and loadgen.md
("Definitions"), which live on as the docstrings here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.load import TOKEN_EVENTS

SLO_METRICS = ("ttft", "tpot", "itl", "latency")
"""What an SLO may bound, with or without a percentile: `ttft_p99`, `latency`."""

SLO_PERCENT = 99
"""The percentile that a limit bounds where it names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTimes:
    """The times of one request in nanoseconds; what nobody can define is None."""

    queue_ns: int | None
    """Sent minus scheduled: how late the client was."""
    ttft_user_ns: int | None
    """First token-bearing event minus scheduled: what the user waits, the one SLOs mean."""
    ttft_service_ns: int | None
    """First token-bearing event minus sent."""
    first_content_ns: int | None
    """First event with content minus scheduled; later than the first token where the model reasons."""
    first_reasoning_ns: int | None
    latency_ns: int | None
    """Last token-bearing event minus scheduled; usage, `[DONE]` and the stream's end do not move it."""
    tpot_ns: float | None
    """(last − first) / (tokens in all bursts − those in the first); None where no token follows it."""
    itl_ns: tuple[float, ...]
    """Per-token gap after the first burst, one value a token: the gap before a burst over the tokens in it."""


def times_of(
    *,
    scheduled_ns: int,
    sent_ns: int | None,
    event_ns: Sequence[int],
    event_kind: Sequence[str],
    event_tokens: Sequence[int],
) -> RequestTimes:
    """Derive the times of one request from the columns of its record.

    Events that share an instant came in one read and are one burst. A burst without a known token passes its gap on to
    the next. The tokens of events add up to what the server counted, less those that it never sent.
    """
    bursts: list[tuple[int, int]] = []
    firsts: dict[str, int] = {}
    for at, kind, tokens in zip(event_ns, event_kind, event_tokens, strict=True):
        if kind not in TOKEN_EVENTS:
            continue
        firsts.setdefault(kind, at - scheduled_ns)
        if bursts and bursts[-1][0] == at:
            bursts[-1] = (at, bursts[-1][1] + tokens)
        else:
            bursts.append((at, tokens))
    first, last = (bursts[0][0], bursts[-1][0]) if bursts else (None, None)
    return RequestTimes(
        queue_ns=None if sent_ns is None else sent_ns - scheduled_ns,
        ttft_user_ns=None if first is None else first - scheduled_ns,
        ttft_service_ns=None if first is None or sent_ns is None else first - sent_ns,
        first_content_ns=firsts.get("content"),
        first_reasoning_ns=firsts.get("reasoning"),
        latency_ns=None if last is None else last - scheduled_ns,
        tpot_ns=_tpot(bursts),
        itl_ns=_gaps(bursts),
    )


def times_of_record(row: Mapping[str, Any]) -> RequestTimes:
    """Derive the times of one row of a load record, or of a mapping with the same columns."""
    return times_of(
        scheduled_ns=row["scheduled_ns"],
        sent_ns=row["sent_ns"],
        event_ns=row["event_ns"],
        event_kind=row["event_kind"],
        event_tokens=row["event_tokens"],
    )


def _tpot(bursts: Sequence[tuple[int, int]]) -> float | None:
    # Without counts in the events nobody knows what the first one held; and one burst has no duration.
    if len(bursts) < 2 or not any(tokens for _, tokens in bursts):
        return None
    following = sum(tokens for _, tokens in bursts[1:])
    return (bursts[-1][0] - bursts[0][0]) / following if following > 0 else None


def _gaps(bursts: Sequence[tuple[int, int]]) -> tuple[float, ...]:
    gaps: list[float] = []
    before = bursts[0][0] if bursts else 0
    for at, tokens in bursts[1:]:
        if tokens > 0:
            gaps.extend([(at - before) / tokens] * tokens)
            before = at
    return tuple(gaps)


def nearest_rank(ordered: Sequence[float], percent: float) -> float | None:
    """Return the smallest value that at least `percent` % of the values do not exceed; None of none.

    `ordered` is ascending.
    """
    if not ordered:
        return None
    # Rounded first: 99.9 % of 1000 is rank 999, though the product in floating point lies a little above.
    rank = math.ceil(round(percent * len(ordered) / 100, 9))
    return ordered[max(rank, 1) - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """What a set of times looks like, in milliseconds; percentiles by nearest rank."""

    n: int
    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None


def distribution_of(values_ns: Iterable[float | None]) -> Distribution:
    """Summarise times in nanoseconds; what is None does not take part."""
    ordered = sorted(value / 1e6 for value in values_ns if value is not None)
    return Distribution(
        n=len(ordered),
        mean=math.fsum(ordered) / len(ordered) if ordered else None,
        p50=nearest_rank(ordered, 50),
        p90=nearest_rank(ordered, 90),
        p99=nearest_rank(ordered, 99),
        max=ordered[-1] if ordered else None,
    )


def meets(times: RequestTimes, slo: Mapping[str, float]) -> bool:
    """Say whether one request keeps every limit (name of the statistic → milliseconds).

    A request without such a time does not keep a limit on it, as where nobody counted its tokens; but an answer of one
    burst has no gaps to bound.

    Raises:
        InvalidInput: a name is not one of `SLO_METRICS` with or without a percentile.
    """
    return all(_keeps(times, slo_metric(name), limit_ms * 1e6) for name, limit_ms in slo.items())


def slo_metric(name: str) -> str:
    """Return which time a limit of an SLO bounds: `ttft` of `ttft_p99`.

    Raises:
        InvalidInput: the name is not one of `SLO_METRICS` with or without a percentile.
    """
    metric, _, statistic = name.partition("_")
    if metric not in SLO_METRICS or (statistic and not (statistic[0] == "p" and statistic[1:].isdigit())):
        raise InvalidInput(
            f"The SLO bounds {name!r}, which is not measured.",
            cure=f"Write one of {', '.join(SLO_METRICS)}, with a percentile if you like: ttft_p99.",
        )
    return metric


def slo_percent(name: str) -> int:
    """Return the percentile that a limit bounds: 90 of `ttft_p90`, `SLO_PERCENT` of `ttft`.

    Raises:
        InvalidInput: the name is no limit, or its percentile is not between 1 and 99.
    """
    slo_metric(name)
    _, _, statistic = name.partition("_")
    percent = int(statistic[1:]) if statistic else SLO_PERCENT
    if not 1 <= percent <= 99:
        raise InvalidInput(f"The limit {name!r} has a percentile beyond 1 to 99.", cure="Write ttft_p99, for example.")
    return percent


def _keeps(times: RequestTimes, metric: str, limit_ns: float) -> bool:
    match metric:
        case "ttft":
            return times.ttft_user_ns is not None and times.ttft_user_ns <= limit_ns
        case "latency":
            return times.latency_ns is not None and times.latency_ns <= limit_ns
        case "tpot":
            bounded_ns = times.tpot_ns
        case _:
            bounded_ns = max(times.itl_ns, default=None)
    if bounded_ns is None:
        return times.latency_ns is not None and times.ttft_user_ns == times.latency_ns
    return bounded_ns <= limit_ns
