"""Times of one request: latency, TTFT, ITL and TPOT from the instants of its events.

`times.times_of_frame` derives the same times for many requests at once, and a test compares the two. This module does
not import numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vlmhyperbench_sdk.load import TOKEN_EVENTS


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTimes:
    """Times of one request in nanoseconds; an undefined time is None."""

    queue_ns: int | None
    """Sent minus scheduled: how late the client sent the request."""
    ttft_user_ns: int | None
    """First token-bearing event minus scheduled: the wait of the user, which SLOs limit."""
    ttft_service_ns: int | None
    """First token-bearing event minus sent."""
    first_content_ns: int | None
    """First event with content minus scheduled; later than the first token where the model reasons."""
    first_reasoning_ns: int | None
    latency_ns: int | None
    """Last token-bearing event minus scheduled; usage, `[DONE]` and the stream's end do not count."""
    tpot_ns: float | None
    """(last burst − first burst) / tokens after the first burst; None where no token follows it."""
    itl_ns: tuple[float, ...]
    """Gap per token after the first burst, one value per token: the gap before a burst over the tokens in it."""


def times_of(
    *,
    scheduled_ns: int,
    sent_ns: int | None,
    event_ns: Sequence[int],
    event_kind: Sequence[str],
    event_tokens: Sequence[int],
) -> RequestTimes:
    """Derive the times of one request from the columns of its record.

    Events of one instant came in one read and are one burst. The gap before a burst without a known token is added to
    the gap before the next burst. The tokens of all events add up to the server's count, minus tokens it did not send.
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
    # Without counts in the events the tokens of the first burst are unknown, and a single burst has no duration.
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
