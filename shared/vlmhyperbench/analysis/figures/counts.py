"""Counts by category: grouped bars, or stacked bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vlmhyperbench.analysis.figures.spec import Axis, Cell, FigureSpec, FigureTable, Series, SeriesTone
from vlmhyperbench.analysis.labels import clean, distinct, join_parts, printable


def bars_figure(
    name: str, title: str, *, axis: Axis, groups: str, series: Mapping[str, Mapping[str, int]], note: str = ""
) -> FigureSpec:
    """Draw counts by category as horizontal bars, such as kinds of errors."""
    labels = distinct(label for counts in series.values() for label in counts)
    names = distinct(series)
    counted = {names[name]: {labels[label]: n for label, n in counts.items()} for name, counts in series.items()}
    categories = tuple(labels.values())
    title, groups = printable(title), clean(groups)
    sentences = [
        f"{shown}: " + (", ".join(f"{label} {n}" for label, n in counts.items()) or "none")
        for shown, counts in counted.items()
    ]
    return FigureSpec(
        name=name,
        kind="bars",
        title=title,
        alt=f"{title}. {'; '.join(sentences)}.",
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
    """Draw one bar per row, stacked from parts, such as won, tied and lost answers.

    Args:
        name: Slug.
        title: Headline.
        axis: Axis of the counts.
        groups: What a row stands for.
        parts: Name and meaning of each part, from left to right.
        rows: Name of a row → count of each part.
        note: How to read the figure.
    """
    labels = tuple(distinct(rows).values())
    counts = tuple(tuple(row) for row in rows.values())
    title, groups = printable(title), clean(groups)
    sentences = [
        f"{label}: {', '.join(f'{n} {part}' for (part, _), n in zip(parts, row, strict=True))}"
        for label, row in zip(labels, counts, strict=True)
    ]
    return FigureSpec(
        name=name,
        kind="stacked",
        title=title,
        alt=f"{title}. {join_parts(sentences, nothing='Nothing was counted')}.",
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
                y=tuple(float(row) for row in range(len(labels))),
                tone=tone,
            )
            for i, (part, tone) in enumerate(parts)
        ),
        categories=labels,
        note=note,
    )


def _count_row(label: str, counted: Mapping[str, Mapping[str, int]]) -> tuple[Cell, ...]:
    return (label, *(counts.get(label, 0) for counts in counted.values()))
