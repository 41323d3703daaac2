"""Labels and numbers as people read them in figures and sentences; labels may come from a data set or a model."""

from __future__ import annotations

import math

MAX_LABEL = 48


def clean(label: str) -> str:
    """Make a label fit to be drawn: printable, on one line, at most `MAX_LABEL` characters."""
    line = "".join(c if c.isprintable() else "�" for c in " ".join(label.split()))
    return line if len(line) <= MAX_LABEL else line[: MAX_LABEL - 1] + "…"


def short(value: float | None) -> str:
    """Write a number with three significant digits and no exponent; unknown is a dash."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace(",", " ")
