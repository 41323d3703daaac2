"""How often something happened, by category: grouped bars, or one stacked bar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vlmhyperbench.analysis.figures.spec import Axis, Cell, FigureSpec, FigureTable, Series, SeriesTone
from vlmhyperbench.analysis.labels import clean, distinct, printable, some


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


def stacked_figure(
    name: str,
    title: str,
    *,
    axis: Axis,
    groups: str,
    parts: Sequence[tuple[str, SeriesTone]],
    rows: Mapping[str, Sequence[int]],
    note: str = "",
) -> FigureSpec:
    """Draw one bar per row, made of parts: won, tied and lost answers.

    Args:
        name: slug.
        title: headline.
        axis: of the counts.
        groups: what a row is.
        parts: their names, from left to right, and what they mean.
        rows: name → the number of each part.
        note: how to read it.
    """
    labels = tuple(distinct(rows).values())
    counts = tuple(tuple(row) for row in rows.values())
    title, groups = printable(title), clean(groups)
    said = [
        f"{label}: {', '.join(f'{n} {part}' for (part, _), n in zip(parts, row, strict=True))}"
        for label, row in zip(labels, counts, strict=True)
    ]
    return FigureSpec(
        name=name,
        kind="stacked",
        title=title,
        alt=f"{title}. {some(said, nothing='Nothing was counted')}.",
        x=Axis(title=axis.title, unit=axis.unit, low=0.0, high=axis.high),
        y=Axis(title=groups),
        table=FigureTable(
            columns=(groups, *(part for part, _ in parts)),
            rows=tuple((label, *row) for label, row in zip(labels, counts, strict=True)),
        ),
        series=tuple(
            Series(
                name=part,
                x=tuple(float(row[i]) for row in counts),
                y=tuple(float(place) for place in range(len(labels))),
                tone=tone,
            )
            for i, (part, tone) in enumerate(parts)
        ),
        categories=labels,
        note=note,
    )


def _count_row(label: str, counted: Mapping[str, Mapping[str, int]]) -> tuple[Cell, ...]:
    return (label, *(counts.get(label, 0) for counts in counted.values()))
