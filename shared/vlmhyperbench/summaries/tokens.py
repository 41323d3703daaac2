"""Token-bearing events of many requests, folded into counts of a fixed size.

Readers of events (`facts` chunks) fold them batch by batch into gaps between tokens in fixed buckets, and tokens in
bins of the run's time. The report draws both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy
import polars

from vlmhyperbench.analysis.distributions import BUCKETS, FloatArray, Ordered, bucket_counts, of_buckets
from vlmhyperbench.analysis.timelines import Grid
from vlmhyperbench.analysis.times import times_of_frame, token_instants
from vlmhyperbench.summaries.records import TokenEvents

COLUMNS = (
    "scheduled_ns",
    "sent_ns",
    "stream_end_ns",
    "last_event_ns",
    "completion_tokens",
    "event_ns",
    "event_tokens",
    "event_kind",
)
"""Columns that are read from a chunk."""
LONGEST_GAP = "longest_gap_ns"


def no_events(grid: Grid | None) -> TokenEvents:
    """Return the fold of no events."""
    return TokenEvents(
        grid=grid,
        tokens=numpy.zeros(0 if grid is None else grid.bins),
        gap_counts=numpy.zeros(BUCKETS, dtype=numpy.int64),
        uncounted=0,
    )


def fold(before: TokenEvents, rows: polars.DataFrame, offsets: Mapping[str, int]) -> tuple[TokenEvents, polars.Series]:
    """Add answered requests to a fold.

    Args:
        before: Fold of earlier batches.
        rows: `COLUMNS` and `claim_id` of requests that were answered.
        offsets: `spans.clock_offsets` of the claims.

    Returns:
        The new fold, and the longest gap of each request in nanoseconds, null where there is none.
    """
    times = times_of_frame(rows)
    longest = polars.Series(LONGEST_GAP, times.longest_itl, nan_to_null=True)
    counted = rows.filter(polars.col("completion_tokens").is_not_null())
    tokens = before.tokens
    if before.grid is not None:
        for (claim,), part in counted.group_by("claim_id", maintain_order=True):
            at, weights = token_instants(part)
            tokens = tokens + before.grid.count(at + offsets.get(str(claim), 0), weights)
    gap_counts = before.gap_counts + bucket_counts(times.itl)
    uncounted = before.uncounted + rows.height - counted.height
    return replace(before, tokens=tokens, gap_counts=gap_counts, uncounted=uncounted), longest


def gaps_ms(events: TokenEvents) -> Ordered:
    """Return the gaps between tokens in milliseconds, with a relative error of at most 0.5 %."""
    return of_buckets(events.gap_counts)


def tokens_per_s(events: TokenEvents) -> tuple[Grid, FloatArray] | None:
    """Return the bins and the output tokens per second in each, of shape (bins,); None where no token was counted."""
    if events.grid is None or not events.tokens.any():
        return None
    return events.grid, events.tokens / events.grid.width_s
