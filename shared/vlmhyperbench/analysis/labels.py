"""Labels and numbers as figures and sentences show them. Labels may come from a data set or a model."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from itertools import count

MAX_LABEL = 48
MAX_PARTS = 8
"""Parts of a sentence that are written out."""
_PLAIN = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")


def clean(label: str) -> str:
    """Make a label fit to be drawn: printable, on one line, at most `MAX_LABEL` characters."""
    line = printable(label)
    return line if len(line) <= MAX_LABEL else line[: MAX_LABEL - 1] + "…"


def printable(text: str) -> str:
    """Put a text on one line and replace characters that cannot be printed."""
    return "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))


def distinct(labels: Iterable[str]) -> dict[str, str]:
    """Map labels to clean labels that are all different: where two become equal, the second gets the ending ` (2)`."""
    shown: dict[str, str] = {}
    for label in dict.fromkeys(labels):
        text = clean(label)
        numbers = count(2)
        while text in shown.values():
            ending = f" ({next(numbers)})"
            text = clean(label)[: MAX_LABEL - len(ending)] + ending
        shown[label] = text
    return shown


def join_parts(parts: Sequence[str], *, nothing: str) -> str:
    """Join the first `MAX_PARTS` parts of a sentence, with `…` for the others; `nothing` where there are none."""
    return f"{'; '.join(parts[:MAX_PARTS]) or nothing}{'; …' if len(parts) > MAX_PARTS else ''}"


def slug(text: str) -> str:
    """Make a name for files and anchors; different texts have different slugs.

    `doc_class` becomes `doc-class`. A text of other characters than lower-case letters, digits and single underscores
    gets a hash at the end.
    """
    if _PLAIN.fullmatch(text) and len(text) <= MAX_LABEL:
        return text.replace("_", "-")
    letters = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:MAX_LABEL]
    return f"{letters}-{hashlib.sha256(text.encode()).hexdigest()[:8]}".lstrip("-")


def short(value: float | None) -> str:
    """Write a number with three significant digits and no exponent; a dash where it is unknown."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace(",", " ")
