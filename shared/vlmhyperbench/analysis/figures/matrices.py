"""Grids of values: flips between two runs, quality by two groups at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vlmhyperbench.analysis.figures.spec import Axis, FigureSpec, FigureTable
from vlmhyperbench.analysis.labels import clean, distinct, printable, some


def matrix_figure(
    name: str,
    title: str,
    *,
    rows: tuple[str, Sequence[str]],
    columns: tuple[str, Sequence[str]],
    cells: Mapping[tuple[str, str], tuple[float, str]],
    note: str = "",
) -> FigureSpec:
    """Draw a grid of values: flips between two runs, or quality by two groups at once.

    Args:
        name: slug.
        title: headline.
        rows: what the rows are, and their labels.
        columns: the same for the columns.
        cells: (row, column) → (shade between 0 and 1, what is written there); a missing cell stays empty.
        note: how to read it.
    """
    pairs = [[cells.get((row, column)) for column in columns[1]] for row in rows[1]]
    labels = tuple(tuple("" if cell is None else cell[1] for cell in line) for line in pairs)
    row_names, column_names = tuple(distinct(rows[1]).values()), tuple(distinct(columns[1]).values())
    title, row_title, column_title = printable(title), clean(rows[0]), clean(columns[0])
    said = [
        f"{row_names[i]} and {column_names[j]}: {text}"
        for i, line in enumerate(labels)
        for j, text in enumerate(line)
        if text
    ]
    return FigureSpec(
        name=name,
        kind="matrix",
        title=title,
        alt=f"{title}. {some(said, nothing='Empty')}.",
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
