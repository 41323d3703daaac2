"""Requests that count for the speed of a run, and their times on one clock for all claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import polars

from vlmhyperbench.analysis.timelines import Grid, grid_of
from vlmhyperbench.domain.units import NS_PER_S
from vlmhyperbench.summaries.records import ClaimEvidence

ANSWERED = (polars.col("status") == "ok") & polars.col("latency_ns").is_not_null()
"""Whether a request was answered with a token. An answer without a token has no time: its user waits forever."""
_ENDED = polars.max_horizontal("stream_end_ns", polars.col("scheduled_ns") + polars.col("latency_ns"))


def own_rows(facts: polars.DataFrame) -> polars.DataFrame:
    """Return the requests that the run sent itself: answers that are reused, cached or imported do not count."""
    return facts.filter(~polars.col("is_reused") & (polars.col("origin") == "live"))


def clock_offsets(claims: Sequence[ClaimEvidence]) -> dict[str, int]:
    """Return the offset of each claim's monotonic clock to the wall clock, where its anchor is known."""
    return {
        claim.id: claim.anchor_wall_ns - claim.anchor_monotonic_ns
        for claim in claims
        if claim.anchor_wall_ns is not None and claim.anchor_monotonic_ns is not None
    }


def on_one_clock(rows: polars.DataFrame, offsets: Mapping[str, int]) -> polars.DataFrame | None:
    """Return the columns `claim_id, scheduled_ns, sent_ns, ended_ns, is_ok` of requests on one clock.

    A single claim needs no offset. A request that was never scheduled is left out.

    Returns:
        None where several claims share no clock: the offset of one is unknown.
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


def are_one_after_another(runs: Sequence[Sequence[ClaimEvidence]]) -> bool:
    """Return whether it is known that no two runs sent requests at the same time, on any machines.

    Args:
        runs: Claims of each run.
    """
    spans: list[tuple[int, int, int]] = []
    for run, claims in enumerate(runs):
        offsets = clock_offsets(claims)
        for claim in claims:
            if claim.sending_from_ns is None or claim.sending_until_ns is None or claim.id not in offsets:
                return False
            shift = offsets[claim.id]
            spans.append((claim.sending_from_ns + shift, claim.sending_until_ns + shift, run))
    spans.sort()
    return all(span[1] <= later[0] for span, later in combinations(spans, 2) if span[2] != later[2])


def grid_over(rows: polars.DataFrame) -> Grid | None:
    """Return bins from the first request scheduled to the last end; `rows` are those of `on_one_clock`."""
    first, last = rows["scheduled_ns"].min(), rows["ended_ns"].max()
    if not isinstance(first, int) or not isinstance(last, int) or last <= first:
        return None
    return grid_of(first, last, requests=rows.height)


def window_s(rows: polars.DataFrame, offsets: Mapping[str, int] | None = None) -> float | None:
    """Return the time in seconds over which the rates of a run are those of one engine.

    Claims of a managed engine have an engine each, so their times are added. Where one engine answered all claims, the
    time of simultaneous claims counts once, if they share a clock.

    Args:
        rows: Requests that the run sent itself.
        offsets: Offsets of the claims' clocks where one engine answered all claims, else None.
    """
    shared = None if offsets is None else on_one_clock(rows, offsets)
    spans = (
        (rows.select("claim_id", "scheduled_ns", ended_ns=_ENDED) if shared is None else shared)
        .group_by("claim_id")
        # A request that could not be sent has no end; its scheduled instant counts instead.
        .agg(polars.col("scheduled_ns").min(), ended_ns=polars.max_horizontal(polars.max("ended_ns", "scheduled_ns")))
        .drop_nulls()
        .sort("scheduled_ns")
        .select("scheduled_ns", "ended_ns")
        .rows()
    )
    total_ns, end_ns = 0, None
    for first_ns, last_ns in spans:
        start_ns = first_ns if shared is None or end_ns is None else max(first_ns, end_ns)
        total_ns += max(0, last_ns - start_ns)
        end_ns = last_ns if end_ns is None else max(end_ns, last_ns)
    return total_ns / NS_PER_S if total_ns > 0 else None
