"""A run over time: requests scheduled, sent and in flight, and the rate of output tokens."""

from __future__ import annotations

from dataclasses import dataclass

import polars

from vlmhyperbench.analysis.distributions import FloatArray
from vlmhyperbench.analysis.figures import Axis, FigureSpec, timeline_figure
from vlmhyperbench.analysis.labels import short
from vlmhyperbench.analysis.timelines import Grid, max_in_flight
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench.summaries.records import TokenEvents
from vlmhyperbench.summaries.spans import clock_offsets, grid_over, on_one_clock, own_rows
from vlmhyperbench.summaries.tokens import tokens_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The counts and rates in each bin of a run's time. Shape of every array: (bins,)."""

    grid: Grid
    scheduled_per_s: FloatArray
    sent_per_s: FloatArray
    failed_per_s: FloatArray
    """By their end, or by when they were sent if the end is unknown."""
    failed: int
    in_flight: FloatArray
    """Mean over the bin."""
    max_in_flight: int
    without_end: int
    """Requests that were sent and whose end is unknown; no bin counts them as in flight."""
    output_tokens_per_s: tuple[Grid, FloatArray] | None
    """In the bins of the token events."""
    uncounted: int
    """Answers whose tokens were not counted."""


def progress_of(run: RunEvidence) -> Progress | None:
    """Return the progress of a run; None if its claims share no clock, or its requests span no time."""
    rows = on_one_clock(own_rows(run.facts), clock_offsets(run.generating))
    return None if rows is None else progress_over(rows, run.events)


def progress_over(rows: polars.DataFrame, events: TokenEvents | None) -> Progress | None:
    """Return the progress of `rows`, which are from `spans.on_one_clock`; None if they span no time."""
    grid = grid_over(rows)
    if grid is None:
        return None
    sent = rows.filter(polars.col("sent_ns").is_not_null())
    whole = sent.filter(polars.col("ended_ns").is_not_null())
    failed = sent.filter(~polars.col("is_ok")).select(polars.coalesce("ended_ns", "sent_ns")).to_series()
    began, ended = whole["sent_ns"].to_numpy(), whole["ended_ns"].to_numpy()
    return Progress(
        grid=grid,
        scheduled_per_s=grid.count(rows["scheduled_ns"].to_numpy()) / grid.width_s,
        sent_per_s=grid.count(sent["sent_ns"].to_numpy()) / grid.width_s,
        failed_per_s=grid.count(failed.to_numpy()) / grid.width_s,
        failed=len(failed),
        in_flight=grid.mean_in_flight(began, ended),
        max_in_flight=max_in_flight(began, ended),
        without_end=sent.height - whole.height,
        output_tokens_per_s=tokens_per_s(events) if events is not None else None,
        uncounted=events.uncounted if events is not None else 0,
    )


def progress_figures(progress: Progress) -> list[FigureSpec]:
    """Draw arrivals, requests in flight and output tokens, without what was not counted."""
    grid = progress.grid
    edges = grid.edges_s.tolist()
    bins = f"Bins of {short(grid.width_s)} s."
    arrivals = {"scheduled": progress.scheduled_per_s.tolist(), "sent": progress.sent_per_s.tolist()}
    if progress.failed:
        arrivals["failed"] = progress.failed_per_s.tolist()
    left_out = f" Requests without a known end are left out: {progress.without_end}." if progress.without_end else ""
    figures = [
        timeline_figure(
            "arrivals",
            "Requests over time",
            y=Axis(title="requests", unit="1/s"),
            edges_s=edges,
            series=arrivals,
            dotted=["failed"],
            note=f"The client is late where fewer requests are sent than scheduled. {bins}",
        ),
        timeline_figure(
            "in-flight",
            "Requests in flight",
            y=Axis(title="in flight"),
            edges_s=edges,
            series={"in flight": progress.in_flight.tolist()},
            note=f"Mean over each bin; at most {progress.max_in_flight} at once.{left_out} {bins}",
        ),
    ]
    if progress.output_tokens_per_s is not None:
        bins_of_tokens, rate = progress.output_tokens_per_s
        unknown = f" Answers of unknown length are left out: {progress.uncounted}." if progress.uncounted else ""
        figures.append(
            timeline_figure(
                "token-rate",
                "Output tokens over time",
                y=Axis(title="output tokens", unit="1/s"),
                edges_s=bins_of_tokens.edges_s.tolist(),
                series={"output tokens": rate.tolist()},
                note=f"Tokens of answered requests, at the time of their arrival.{unknown} {bins}",
            )
        )
    return figures
