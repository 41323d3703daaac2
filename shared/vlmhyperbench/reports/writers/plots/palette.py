"""The colours of figures and their names, for matplotlib, Plotly, SVG files and the HTML report.

Series colours have a contrast of 3:1 with both backgrounds and are distinct for colour-blind readers; dashes and
markers differ too.
"""

from __future__ import annotations

from typing import Literal

from vlmhyperbench.analysis.figures import Series

LIGHT: dict[str, str] = {
    "ink": "#1c2430",
    "muted": "#5a6472",
    "grid": "#dfe3e9",
    "paper": "#ffffff",
    "s1": "#2462c2",
    "s2": "#c2570c",
    "s3": "#0d7f72",
    "s4": "#8b45bd",
    "s5": "#b3323e",
    "s6": "#6a7181",
}
DARK: dict[str, str] = {
    "ink": "#e6eaf0",
    "muted": "#9aa5b4",
    "grid": "#323b48",
    "paper": "#171c24",
    "s1": "#6ea4ff",
    "s2": "#f2934e",
    "s3": "#3fc4b2",
    "s4": "#c48bf0",
    "s5": "#f07783",
    "s6": "#a7afbd",
}
SERIES = ("s1", "s2", "s3", "s4", "s5", "s6")
_TONES = {"good": "s3", "neutral": "s6", "bad": "s5"}
DASHES: tuple[Literal["solid", "dash", "dot", "dashdot"], ...] = ("solid", "dash", "dashdot", "dot")
MARKERS = ("o", "s", "D", "^", "v", "P")
MATRIX_SHADE = 0.62
"""Opacity of the fullest cell: text on it stays readable in both themes."""


def series_colour(index: int) -> str:
    """Return the light theme's colour of a series; colours repeat after six."""
    return LIGHT[SERIES[index % len(SERIES)]]


def colour_of(series: Series, index: int) -> str:
    """Return the colour of a series by its tone, or by its index if it has none."""
    return series_colour(index) if series.tone is None else LIGHT[_TONES[series.tone]]


def rgb(colour: str) -> str:
    """Write a colour as its three channels, for `rgba(…)`: `#2462c2` is `36,98,194`."""
    return ",".join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))


def css(theme: dict[str, str]) -> str:
    """Write a theme as CSS custom properties `--fig-<name>`."""
    return "".join(f"--fig-{name}:{colour};" for name, colour in theme.items())


def css_classes() -> str:
    """Write the classes that `plots.svg` gives to drawn elements."""
    return "".join(
        f".fig-fill-{name}{{fill:var(--fig-{name})}}.fig-line-{name}{{stroke:var(--fig-{name})}}" for name in LIGHT
    )
