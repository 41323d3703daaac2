"""What happened when: rates and counts in equal bins of a run's time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from vlmhyperbench.analysis.figures.spec import Axis, Cell, FigureSpec, FigureTable, Series
from vlmhyperbench.analysis.labels import distinct, short, some

_TIME = Axis(title="time since the first request was due", unit="s")


def timeline_figure(
    name: str,
    title: str,
    *,
    y: Axis,
    edges_s: Sequence[float],
    series: Mapping[str, Sequence[float]],
    dotted: Collection[str] = (),
    note: str = "",
) -> FigureSpec:
    """Draw steps over time, one a bin.

    Args:
        name: slug.
        title: headline.
        y: what the steps are the height of.
        edges_s: of the bins. Shape: (bins + 1,).
        series: name → one value a bin. Shape of each: (bins,).
        dotted: what is bad and hopefully rare: a dot in every bin in which there is some.
        note: how to read it.
    """
    names = distinct(series)
    drawn = tuple(
        Series(
            name=names[key],
            x=tuple(edges_s),
            y=tuple(values),
            is_joined=key not in dotted,
            tone="bad" if key in dotted else None,
        )
        for key, values in series.items()
    )
    said = [
        f"{curve.name}: at most {short(most)} {y.unit}".rstrip() + f", after {short(edges_s[curve.y.index(most)])} s"
        for curve in drawn
        if (most := max(curve.y, default=0.0))
    ]
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (f"{short(edges_s[place])}–{short(edges_s[place + 1])}", *(curve.y[place] for curve in drawn))
        for place in range(len(edges_s) - 1)
    )
    return FigureSpec(
        name=name,
        kind="timeline",
        title=title,
        alt=f"{title}. {some(said, nothing='Nothing happened')}.",
        x=Axis(title=_TIME.title, unit=_TIME.unit, low=edges_s[0], high=edges_s[-1]),
        y=y,
        table=FigureTable(columns=(_TIME.unit, *(curve.name for curve in drawn)), rows=rows),
        series=drawn,
        note=note,
    )
