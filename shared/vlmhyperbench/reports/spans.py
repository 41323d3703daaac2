"""Which requests of a run tell of its speed, and when they were, on one clock for all claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars

from vlmhyperbench.analysis.timelines import Grid, grid_of
from vlmhyperbench.reports.records import ClaimEvidence

_ENDED = polars.max_horizontal("stream_end_ns", polars.col("scheduled_ns") + polars.col("latency_ns"))


def own_rows(facts: polars.DataFrame) -> polars.DataFrame:
    """Return the requests that the run asked itself; answers kept, or of a cache or a file, never count."""
    return facts.filter(~polars.col("is_kept") & (polars.col("origin") == "live"))


def clock_offsets(claims: Sequence[ClaimEvidence]) -> dict[str, int]:
    """Return what turns each claim's instants into those of the wall's clock, where its anchor is known."""
    return {
        claim.id: claim.anchor_wall_ns - claim.anchor_monotonic_ns
        for claim in claims
        if claim.anchor_wall_ns is not None and claim.anchor_monotonic_ns is not None
    }


def on_one_clock(rows: polars.DataFrame, offsets: Mapping[str, int]) -> polars.DataFrame | None:
    """Return `claim_id, scheduled_ns, sent_ns, ended_ns, is_ok` of requests; None where clocks cannot be tied.

    One claim needs no anchor. A request that was never scheduled is left out.
    """
    rows = rows.filter(polars.col("scheduled_ns").is_not_null())
    claims = rows["claim_id"].unique().to_list()
    if len(claims) > 1 and any(claim not in offsets for claim in claims):
        return None
    shift = polars.col("claim_id").replace_strict(dict(offsets), default=0, return_dtype=polars.Int64)
    return rows.select(
        "claim_id",
        scheduled_ns=polars.col("scheduled_ns") + shift,
        sent_ns=polars.col("sent_ns") + shift,
        ended_ns=_ENDED + shift,
        is_ok=polars.col("status") == "ok",
    )


def grid_over(rows: polars.DataFrame) -> Grid | None:
    """Lay bins over the time from the first request scheduled to the last end; `rows` as `on_one_clock` gives them."""
    first, last = rows["scheduled_ns"].min(), rows["ended_ns"].max()
    if not isinstance(first, int) or not isinstance(last, int) or last <= first:
        return None
    return grid_of(first, last, requests=rows.height)


def window_s(rows: polars.DataFrame) -> float | None:
    """Return how long the claims measured, in seconds, added up.

    Claims that measured side by side had an engine each: rates over this time are those of one engine, however many
    workers were free.
    """
    spans = rows.group_by("claim_id").agg(first=polars.col("scheduled_ns").min(), last=_ENDED.max())
    total_ns = sum((spans["last"] - spans["first"]).drop_nulls().to_list())
    return total_ns / 1e9 if total_ns > 0 else None
