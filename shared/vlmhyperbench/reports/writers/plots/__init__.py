"""Draw a `FigureSpec`: statically by matplotlib, interactively by Plotly, and as an SVG that follows a theme."""

from __future__ import annotations

from vlmhyperbench.reports.writers.plots.interactive import to_plotly
from vlmhyperbench.reports.writers.plots.static import to_matplotlib
from vlmhyperbench.reports.writers.plots.svg import Drawing, to_svg

__all__ = ["Drawing", "to_matplotlib", "to_plotly", "to_svg"]
