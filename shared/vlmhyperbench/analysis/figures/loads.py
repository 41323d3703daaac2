"""Throughput of targets against a percentile of their times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vlmhyperbench.analysis.figures.spec import Axis, Cell, FigureSpec, FigureTable, Mark, Series
from vlmhyperbench.analysis.labels import clean, distinct, join_parts, printable, short

GOODPUT = "within the SLO (goodput)"
_RATE = Axis(title="answers", unit="1/s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One level of load on one target."""

    group: str
    """Target; the levels of one target are joined by a line."""
    label: str
    rate_per_s: float
    """Answers per second."""
    value: float
    """Percentile of a time."""
    goodput_per_s: float | None = None
    """Answers per second that met every limit of the SLO; None without an SLO."""


def load_figure(
    name: str,
    title: str,
    *,
    y: Axis,
    loads: Sequence[Load],
    limits: Mapping[str, float] | None = None,
    note: str = "",
) -> FigureSpec:
    """Draw throughput against a time: one line per target, from the lowest rate to the highest.

    Args:
        name: Slug.
        title: Headline.
        y: Axis of the time.
        loads: Levels of load, at least one.
        limits: Name of a limit of the SLO → its value on the axis.
        note: How to read the figure.
    """
    groups, labels = distinct(load.group for load in loads), distinct(load.label for load in loads)
    ordered = sorted(loads, key=lambda load: (load.rate_per_s, load.label))
    lines = {shown: [load for load in ordered if load.group == group] for group, shown in groups.items()}
    good = [load for load in ordered if load.goodput_per_s is not None]
    series = [_line(shown, levels, labels) for shown, levels in lines.items()]
    if good:
        rates = tuple(load.goodput_per_s for load in good)
        series.append(Series(name=GOODPUT, x=rates, y=tuple(load.value for load in good), tone="neutral"))
    sentences = [
        f"{labels[load.label]} at {short(load.rate_per_s)}/s: {short(load.value)} {y.unit}" for load in ordered
    ]
    title = printable(title)
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (labels[load.label], groups[load.group], load.rate_per_s, load.value, load.goodput_per_s) for load in ordered
    )
    return FigureSpec(
        name=name,
        kind="scatter",
        title=title,
        alt=f"{title}. {join_parts(sentences, nothing='Nothing was measured')}.",
        x=_RATE,
        y=Axis(title=y.title, unit=y.unit, low=0.0),
        table=FigureTable(columns=("load", "target", _RATE.label, y.label, "goodput, 1/s"), rows=rows),
        series=tuple(series),
        marks=tuple(Mark(axis="y", at=at, label=clean(label)) for label, at in (limits or {}).items()),
        note=note,
    )


def _line(shown: str, loads: Sequence[Load], labels: Mapping[str, str]) -> Series:
    return Series(
        name=shown,
        x=tuple(load.rate_per_s for load in loads),
        y=tuple(load.value for load in loads),
        labels=tuple(labels[load.label] for load in loads),
        is_joined=len(loads) > 1,
    )
