"""The figures of a comparison: improvements with their intervals, and how answers flipped. Imported when asked for."""

from __future__ import annotations

from collections.abc import Iterator

from vlmhyperbench.analysis.comparison import Flips
from vlmhyperbench.analysis.figures import FigureSpec
from vlmhyperbench.reports.sections.differences import flip_matrix, improvement_figure
from vlmhyperbench.wire.comparisons import RunsComparison


def figures_of(comparison: RunsComparison) -> Iterator[FigureSpec]:
    """Yield the figures of a comparison, as far as its runs have metrics with a direction and answers in common."""
    drawn = {other.run.name: other.metrics for other in comparison.others if any(d.direction for d in other.metrics)}
    if drawn:
        yield improvement_figure(drawn)
    for no, other in enumerate(comparison.others):
        if other.flips is not None:
            yield flip_matrix(comparison.baseline.name, other.run.name, Flips(**other.flips.model_dump()), no)
