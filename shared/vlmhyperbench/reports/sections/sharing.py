"""What each stream, each turn and each size of image took of a run's requests, and how evenly streams were served."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

import numpy
import numpy.typing as npt
import polars

from vlmhyperbench.analysis.groups import Fairness, Group, Key, fairness_of, groups_of, size_bucket
from vlmhyperbench.analysis.interference import median_ratio
from vlmhyperbench.analysis.times import floats_of
from vlmhyperbench.domain.units import NS_PER_MS
from vlmhyperbench.reports.document import Cell, Column, Estimate, Table, write_number
from vlmhyperbench.reports.sections.wording import plural
from vlmhyperbench.summaries.evidence import RunEvidence
from vlmhyperbench.summaries.spans import ANSWERED, own_rows

MAX_GROUPS = 16
_OF_SIZES = "All pixels of a request together; of conversations the first turns, since later ones show nothing new."
_TITLES = ("TTFT p50, ms", "TTFT p99, ms", "TPOT p50, ms", "TPOT p99, ms", "latency p99, ms")


def sharing_tables(run: RunEvidence) -> list[Table]:
    """Lay out streams of a multi-stream scenario, turns of conversations, sizes of images; nothing of a single one."""
    own = own_rows(run.facts)
    rows = own.filter(polars.col("sent_ns").is_not_null())
    tables = []
    if run.spec.scenario.kind == "multi_stream":
        # A stream whose requests could not be sent got nothing, and counts as one.
        due = own.filter(polars.col("scheduled_ns").is_not_null())
        streams = _groups(due, due["stream"].to_list())
        tables += _table("streams", "Streams", "stream", streams, note=_say(fairness_of(due, is_ok=_is_answered(due))))
        if run.baseline_rows is not None:
            # A claim that came no further than its baseline left one too, perhaps of another machine.
            measured = rows["claim_id"].unique().implode()
            tables.append(_interference(rows, run.baseline_rows.filter(polars.col("claim_id").is_in(measured))))
    if rows["turn"].n_unique() > 1:
        note = "The first turn shows the pages; every later one quotes the answers before it."
        tables += _table("turns", "Turns", "turn", _groups(rows, rows["turn"].to_list()), note=note)
    shown = rows.filter((polars.col("pixels") > 0) & (polars.col("turn") == 0))
    sizes = _groups(shown, [size_bucket(pixels) for pixels in shown["pixels"]], name_of=itemgetter(1))
    tables += _table("image_sizes", "Sizes of images", "images of a request", sizes, note=_OF_SIZES)
    return tables


def _groups(rows: polars.DataFrame, keys: Sequence[Key], *, name_of: Callable[[Key], str] = str) -> tuple[Group, ...]:
    # Only requests that were answered have times, and these are the ones that are ok.
    ttft, tpot, latency = (floats_of(rows[name]) for name in ("ttft_user_ns", "tpot_ns", "latency_ns"))
    is_ok = _is_answered(rows).tolist()
    return groups_of(keys, is_ok=is_ok, ttft_ns=ttft, tpot_ns=tpot, latency_ns=latency, name_of=name_of)


def _is_answered(rows: polars.DataFrame) -> npt.NDArray[numpy.bool_]:
    return rows.select(ANSWERED).to_series().to_numpy()


def _interference(rows: polars.DataFrame, alone: polars.DataFrame) -> Table:
    """Lay out what the streams cost each other."""
    good, before = (frame.filter(ANSWERED) for frame in (rows, alone))
    rows_of: list[tuple[Cell, ...]] = []
    for label, column in (("TTFT", "ttft_user_ns"), ("TPOT", "tpot_ns"), ("latency", "latency_ns")):
        times, others = ((frame[column].drop_nulls() / NS_PER_MS).to_list() for frame in (good, before))
        ratio = median_ratio(times, others)
        rows_of.append((label, Estimate(value=ratio.value, low=ratio.low, high=ratio.high, digits=2)))
    return Table(
        name="interference",
        title="What the streams cost each other",
        columns=(Column(title=""), Column(title="median with all, over median alone", kind="estimate")),
        rows=tuple(rows_of),
        note=(
            f"Alone: {plural(before.height, 'answered request')}, one after the other, just before. 1 is no cost; "
            "95 % intervals."
        ),
    )


def _say(found: Fairness | None) -> str:
    if found is None or found.requests is None:
        return "How evenly the streams were served cannot be said: they are too few, or got nothing."
    tokens = f" and {write_number(found.output_tokens)} by output tokens" if found.output_tokens is not None else ""
    return (
        f"Fairness (Jain): {write_number(found.requests)} by answers a second{tokens}; 1 is evenly, "
        f"{write_number(1 / found.streams)} one stream alone."
    )


def _table(name: str, title: str, what: str, groups: tuple[Group, ...], *, note: str) -> list[Table]:
    if len(groups) < 2:
        return []
    rest = f" {plural(len(groups) - MAX_GROUPS, 'further one is', 'further ones are')} left out." * (
        len(groups) > MAX_GROUPS
    )
    columns = (
        Column(title=what),
        Column(title="requests", kind="number"),
        Column(title="answered", kind="number"),
        *(Column(title=title, kind="number") for title in _TITLES),
    )
    return [
        Table(
            name=name,
            title=title,
            columns=columns,
            rows=tuple(_row(group) for group in groups[:MAX_GROUPS]),
            note=f"{note}{rest}",
        )
    ]


def _row(group: Group) -> tuple[Cell, ...]:
    ttft, tpot, latency = group.ttft_user_ms, group.tpot_ms, group.latency_ms
    times = (ttft.p50, ttft.p99, tpot.p50, tpot.p99, latency.p99)
    return (group.name, group.requests, group.ok, *(Estimate(value=time, digits=1) for time in times))
