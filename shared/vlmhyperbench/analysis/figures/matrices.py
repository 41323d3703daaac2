"""Grids of values, such as flips between two runs or quality by two groups at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vlmhyperbench.analysis.figures.spec import Axis, FigureSpec, FigureTable
from vlmhyperbench.analysis.labels import clean, distinct, join_parts, printable


def matrix_figure(
    name: str,
    title: str,
    *,
    rows: tuple[str, Sequence[str]],
    columns: tuple[str, Sequence[str]],
    cells: Mapping[tuple[str, str], tuple[float, str]],
    note: str = "",
) -> FigureSpec:
    """Draw a grid of values.

    Args:
        name: Slug.
        title: Headline.
        rows: What the rows stand for, and their labels.
        columns: What the columns stand for, and their labels.
        cells: (row, column) → (shade from 0 to 1, text of the cell); a missing cell stays empty.
        note: How to read the figure.
    """
    pairs = [[cells.get((row, column)) for column in columns[1]] for row in rows[1]]
    labels = tuple(tuple("" if cell is None else cell[1] for cell in line) for line in pairs)
    row_names, column_names = tuple(distinct(rows[1]).values()), tuple(distinct(columns[1]).values())
    title, row_title, column_title = printable(title), clean(rows[0]), clean(columns[0])
    sentences = [
        f"{row_names[i]} and {column_names[j]}: {text}"
        for i, line in enumerate(labels)
        for j, text in enumerate(line)
        if text
    ]
    return FigureSpec(
        name=name,
        kind="matrix",
        title=title,
        alt=f"{title}. {join_parts(sentences, nothing='Empty')}.",
        x=Axis(title=column_title),
        y=Axis(title=row_title),
        table=FigureTable(
            columns=(f"{row_title} \\ {column_title}", *column_names),
            rows=tuple((row, *line) for row, line in zip(row_names, labels, strict=True)),
        ),
        categories=row_names,
        columns=column_names,
        cells=tuple(tuple(None if cell is None else cell[0] for cell in line) for line in pairs),
        cell_labels=labels,
        note=note,
    )
