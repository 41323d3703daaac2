"""Times of many requests at once, from the columns of a record.

`request_times.times_of` derives the same times for one request, and a test compares the two. An undefined time is NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vlmhyperbench.analysis.distributions import FloatArray, IntArray
from vlmhyperbench_sdk.load import TOKEN_EVENTS

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Nanoseconds by request, NaN where undefined. Shape of each: (requests,), unless stated otherwise."""

    queue: FloatArray
    ttft_user: FloatArray
    ttft_service: FloatArray
    first_content: FloatArray
    """First event with content minus scheduled."""
    first_reasoning: FloatArray
    latency: FloatArray
    tpot: FloatArray
    longest_itl: FloatArray
    itl: FloatArray
    """Gaps per token of all requests, one value per token. Shape: (tokens after each first burst,)."""
    itl_request: IntArray
    """Index of the request of each gap. Shape: that of `itl`."""

    def of(self, selected: npt.NDArray[np.bool_]) -> Times:
        """Return the times of the selected requests. `selected` has the shape (requests,)."""
        is_gap_selected = selected[self.itl_request]
        return Times(
            queue=self.queue[selected],
            ttft_user=self.ttft_user[selected],
            ttft_service=self.ttft_service[selected],
            first_content=self.first_content[selected],
            first_reasoning=self.first_reasoning[selected],
            latency=self.latency[selected],
            tpot=self.tpot[selected],
            longest_itl=self.longest_itl[selected],
            itl=self.itl[is_gap_selected],
            itl_request=(np.cumsum(selected) - 1)[self.itl_request[is_gap_selected]],
        )


def times_of_frame(frame: pl.DataFrame) -> Times:
    """Derive the times of the rows of a record, in their order."""
    requests = frame.height
    # Integers are subtracted before the conversion: a float cannot represent the instants of a long uptime exactly.
    queue = floats_of(frame["sent_ns"] - frame["scheduled_ns"])
    events = _token_events(frame)
    request, at, tokens = _bursts(events)
    opens = np.concatenate(([True], request[1:] != request[:-1])) if request.size else np.zeros(0, dtype=bool)
    first, last, first_tokens = (np.full(requests, np.nan) for _ in range(3))
    starts = request[opens]
    origin = frame["scheduled_ns"].to_numpy()
    since = (at - origin[request]).astype(np.float64)
    first[starts], first_tokens[starts] = since[opens], tokens[opens]
    closes = np.concatenate((opens[1:], [True])) if request.size else opens
    last[request[closes]] = since[closes]
    bursts = np.bincount(request, minlength=requests)
    counted = np.bincount(request, weights=tokens, minlength=requests)
    following = counted - first_tokens
    has_tpot = (bursts > 1) & (counted > 0) & (following > 0)
    tpot = np.full(requests, np.nan)
    np.divide(last - first, following, out=tpot, where=has_tpot)
    gap, of = _gaps(request, since, tokens, opens)
    longest = np.full(requests, np.nan)
    np.fmax.at(longest, of, gap)
    return Times(
        queue=queue,
        ttft_user=first,
        ttft_service=first - queue,
        first_content=_first_of("content", events, origin),
        first_reasoning=_first_of("reasoning", events, origin),
        latency=last,
        tpot=tpot,
        longest_itl=longest,
        itl=gap,
        itl_request=of,
    )


def floats_of(column: pl.Series) -> FloatArray:
    """Return the numbers of a column, NaN where it is null. Shape: (rows,)."""
    import polars as pl

    return column.cast(pl.Float64).fill_null(np.nan).to_numpy()


def sum_counts(column: pl.Series) -> int | None:
    """Sum a column of counts; None where a row has no count."""
    import polars as pl

    # The sum of a 32-bit column has 32 bits and could overflow.
    return None if column.null_count() else int(column.cast(pl.Int64).sum())


def token_instants(frame: pl.DataFrame) -> tuple[IntArray, FloatArray]:
    """Return the instants at which output tokens arrived, and the number at each. Shape of both: (instants,).

    The tokens of a row add up to its `completion_tokens`, which must be known. Where its events have no token counts,
    all tokens count at its last event, or at its end where it has no event.
    """
    import polars as pl

    request, at, tokens = _bursts(_token_events(frame))
    completion = frame["completion_tokens"].cast(pl.Float64).to_numpy()
    counted = np.bincount(request, weights=tokens, minlength=frame.height)
    share = np.divide(completion, counted, out=np.zeros(frame.height), where=counted > 0)
    is_uncounted = (counted == 0) & (completion > 0)
    last = frame.select(pl.coalesce("last_event_ns", "stream_end_ns")).to_series().to_numpy()
    return np.concatenate((at, last[is_uncounted])), np.concatenate((tokens * share[request], completion[is_uncounted]))


def _token_events(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the token-bearing events of rows, one per line, in order; `request` is the index of the row."""
    import polars as pl

    return (
        frame.select(pl.int_range(pl.len(), dtype=pl.Int64).alias("request"), "event_ns", "event_kind", "event_tokens")
        .filter(pl.col("event_ns").list.len() > 0)
        .explode("event_ns", "event_kind", "event_tokens")
        .filter(pl.col("event_kind").is_in(TOKEN_EVENTS))
    )


def _first_of(kind: str, events: pl.DataFrame, origin: IntArray) -> FloatArray:
    """Return the time from `origin` to the first event of a kind. Shape of both: (requests,)."""
    import polars as pl

    since = np.full(origin.size, np.nan)
    firsts = events.filter(pl.col("event_kind") == kind).unique("request", keep="first", maintain_order=True)
    request = firsts["request"].to_numpy()
    since[request] = firsts["event_ns"].to_numpy() - origin[request]
    return since


def _bursts(events: pl.DataFrame) -> tuple[IntArray, IntArray, FloatArray]:
    """Return request, instant and tokens of each burst: the token-bearing events of one instant."""
    import polars as pl

    request, at = events["request"].to_numpy(), events["event_ns"].to_numpy()
    if not request.size:
        return request, at, np.zeros(0)
    is_new = np.concatenate(([True], (request[1:] != request[:-1]) | (at[1:] != at[:-1])))
    starts = np.flatnonzero(is_new)
    tokens = np.add.reduceat(events["event_tokens"].cast(pl.Float64).to_numpy(), starts)
    return request[starts], at[starts], tokens


def _gaps(
    request: IntArray, since: FloatArray, tokens: FloatArray, opens: npt.NDArray[np.bool_]
) -> tuple[FloatArray, IntArray]:
    """Return gaps per token and their requests.

    The gap before a burst without a known token is added to the gap before the next burst.
    """
    has_gap = opens | (tokens > 0)
    request, since, tokens, opens = request[has_gap], since[has_gap], tokens[has_gap], opens[has_gap]
    follows = np.flatnonzero(~opens)
    each = tokens[follows].astype(np.int64)
    gaps = (since[follows] - since[follows - 1]) / each
    return np.repeat(gaps, each), np.repeat(request[follows], each)
