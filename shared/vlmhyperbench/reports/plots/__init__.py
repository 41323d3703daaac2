"""Draw a `FigureSpec`: statically by matplotlib, interactively by Plotly, and as an SVG that follows a theme."""

from __future__ import annotations

from vlmhyperbench.reports.plots.interactive import to_plotly
from vlmhyperbench.reports.plots.static import to_matplotlib
from vlmhyperbench.reports.plots.svg import to_inline_svg, to_svg_file

__all__ = ["to_inline_svg", "to_matplotlib", "to_plotly", "to_svg_file"]
