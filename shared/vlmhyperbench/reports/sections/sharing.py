"""The requests of a run by stream, by turn and by image size, and the fairness and interference between streams."""

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
_OF_SIZES = "By the sum of the pixels of a request; of conversations only first turns, which show the images."
_TITLES = ("TTFT p50, ms", "TTFT p99, ms", "TPOT p50, ms", "TPOT p99, ms", "latency p99, ms")


def sharing_tables(run: RunEvidence) -> list[Table]:
    """Return tables of streams, turns and image sizes, each only if there are several."""
    own = own_rows(run.facts)
    rows = own.filter(polars.col("sent_ns").is_not_null())
    tables = []
    if run.spec.scenario.kind == "multi_stream":
        # A stream whose requests could not be sent is a stream without answers.
        due = own.filter(polars.col("scheduled_ns").is_not_null())
        streams = _groups(due, due["stream"].to_list())
        fairness = fairness_of(due, is_ok=_is_answered(due))
        tables += _table("streams", "Streams", "stream", streams, note=_fairness_sentence(fairness))
        if run.baseline_rows is not None:
            # A claim that ended after its baseline phase has baseline rows too, perhaps of another machine.
            measured = rows["claim_id"].unique().implode()
            tables.append(_interference(rows, run.baseline_rows.filter(polars.col("claim_id").is_in(measured))))
    if rows["turn"].n_unique() > 1:
        note = "The first turn shows the pages; each later turn quotes the answers before it."
        tables += _table("turns", "Turns", "turn", _groups(rows, rows["turn"].to_list()), note=note)
    shown = rows.filter((polars.col("pixels") > 0) & (polars.col("turn") == 0))
    sizes = _groups(shown, [size_bucket(pixels) for pixels in shown["pixels"]], name_of=itemgetter(1))
    tables += _table("image_sizes", "Image sizes", "images of a request", sizes, note=_OF_SIZES)
    return tables


def _groups(rows: polars.DataFrame, keys: Sequence[Key], *, name_of: Callable[[Key], str] = str) -> tuple[Group, ...]:
    # Exactly the answered requests have times.
    ttft, tpot, latency = (floats_of(rows[name]) for name in ("ttft_user_ns", "tpot_ns", "latency_ns"))
    is_ok = _is_answered(rows).tolist()
    return groups_of(keys, is_ok=is_ok, ttft_ns=ttft, tpot_ns=tpot, latency_ns=latency, name_of=name_of)


def _is_answered(rows: polars.DataFrame) -> npt.NDArray[numpy.bool_]:
    return rows.select(ANSWERED).to_series().to_numpy()


def _interference(rows: polars.DataFrame, baseline_rows: polars.DataFrame) -> Table:
    """Return how much slower requests are with all streams than in the baseline phase, one after another."""
    together, single = (frame.filter(ANSWERED) for frame in (rows, baseline_rows))
    rows_of: list[tuple[Cell, ...]] = []
    for label, column in (("TTFT", "ttft_user_ns"), ("TPOT", "tpot_ns"), ("latency", "latency_ns")):
        times, baseline = ((frame[column].drop_nulls() / NS_PER_MS).to_list() for frame in (together, single))
        ratio = median_ratio(times, baseline)
        rows_of.append((label, Estimate(value=ratio.value, low=ratio.low, high=ratio.high, digits=2)))
    return Table(
        name="interference",
        title="Interference between streams",
        columns=(Column(title=""), Column(title="median with all streams / median of the baseline", kind="estimate")),
        rows=tuple(rows_of),
        note=(
            f"The baseline is {plural(single.height, 'answered request')}, one after another, just before. 1 means no "
            "interference; 95 % intervals."
        ),
    )


def _fairness_sentence(fairness: Fairness | None) -> str:
    if fairness is None or fairness.requests is None:
        return "The fairness between the streams is unknown: there are too few streams, or they got no answers."
    tokens = fairness.output_tokens
    by_tokens = f" and {write_number(tokens)} by output tokens" if tokens is not None else ""
    return (
        f"Jain's fairness index: {write_number(fairness.requests)} by answers per second{by_tokens}; 1 means equal "
        f"service, {write_number(1 / fairness.streams)} that a single stream got everything."
    )


def _table(name: str, title: str, what: str, groups: tuple[Group, ...], *, note: str) -> list[Table]:
    if len(groups) < 2:
        return []
    left_out = len(groups) - MAX_GROUPS
    rest = f" {plural(left_out, 'further row is', 'further rows are')} left out." if left_out > 0 else ""
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
