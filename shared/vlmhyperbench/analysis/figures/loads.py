"""What a target takes at which rate: throughput against a percentile of its times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vlmhyperbench.analysis.figures.spec import Axis, Cell, FigureSpec, FigureTable, Mark, Series
from vlmhyperbench.analysis.labels import clean, distinct, printable, short, some

GOODPUT = "within the SLO (goodput)"
_RATE = Axis(title="answers", unit="1/s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One level of load on one target."""

    group: str
    """What was loaded: levels of one target lie on one line."""
    label: str
    rate_per_s: float
    """Answers a second."""
    value: float
    goodput_per_s: float | None = None
    """Answers a second that kept every limit of the SLO; None without one."""


def load_figure(
    name: str,
    title: str,
    *,
    y: Axis,
    loads: Sequence[Load],
    limits: Mapping[str, float] | None = None,
    note: str = "",
) -> FigureSpec:
    """Draw throughput against a time: one line a target, from the lowest rate to the highest.

    Args:
        name: slug.
        title: headline.
        y: the time.
        loads: at least one.
        limits: name of a limit of the SLO → where its line is.
        note: how to read it.
    """
    groups, labels = distinct(load.group for load in loads), distinct(load.label for load in loads)
    ordered = sorted(loads, key=lambda load: (load.rate_per_s, load.label))
    lines = {shown: [load for load in ordered if load.group == group] for group, shown in groups.items()}
    good = [load for load in ordered if load.goodput_per_s is not None]
    series = [_line(shown, found, labels) for shown, found in lines.items()]
    if good:
        rates = tuple(load.goodput_per_s for load in good)
        series.append(Series(name=GOODPUT, x=rates, y=tuple(load.value for load in good), tone="neutral"))
    said = [f"{labels[load.label]} at {short(load.rate_per_s)}/s: {short(load.value)} {y.unit}" for load in ordered]
    title = printable(title)
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (labels[load.label], groups[load.group], load.rate_per_s, load.value, load.goodput_per_s) for load in ordered
    )
    return FigureSpec(
        name=name,
        kind="scatter",
        title=title,
        alt=f"{title}. {some(said, nothing='Nothing was measured')}.",
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
