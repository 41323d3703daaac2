"""How often something happened, by category: bars."""

from __future__ import annotations

from collections.abc import Mapping

from vlmhyperbench.analysis.figures.spec import Axis, Cell, FigureSpec, FigureTable, Series
from vlmhyperbench.analysis.labels import clean, distinct, printable


def bars_figure(
    name: str, title: str, *, axis: Axis, groups: str, series: Mapping[str, Mapping[str, int]], note: str = ""
) -> FigureSpec:
    """Draw counts by category as horizontal bars: error kinds, wins and losses."""
    labels = distinct(label for counts in series.values() for label in counts)
    names = distinct(series)
    counted = {names[name]: {labels[label]: n for label, n in counts.items()} for name, counts in series.items()}
    categories = tuple(labels.values())
    title, groups = printable(title), clean(groups)
    said = [
        f"{shown}: " + (", ".join(f"{label} {n}" for label, n in counts.items()) or "none")
        for shown, counts in counted.items()
    ]
    return FigureSpec(
        name=name,
        kind="bars",
        title=title,
        alt=f"{title}. {'; '.join(said)}.",
        x=Axis(title=axis.title, unit=axis.unit, low=0.0, high=axis.high),
        y=Axis(title=groups),
        table=FigureTable(
            columns=(groups, *counted),
            rows=tuple(_count_row(label, counted) for label in categories),
        ),
        series=tuple(
            Series(
                name=shown,
                x=tuple(float(counts.get(label, 0)) for label in categories),
                y=tuple(float(index) for index in range(len(categories))),
            )
            for shown, counts in counted.items()
        ),
        categories=categories,
        note=note,
    )


def _count_row(label: str, counted: Mapping[str, Mapping[str, int]]) -> tuple[Cell, ...]:
    return (label, *(counts.get(label, 0) for counts in counted.values()))
