"""What Python counts as white space beside the plain space: rare in answers, so that looking for it first pays."""

from __future__ import annotations

import numpy as np

_OTHER = (
    "\t", "\v", "\f", "\r", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\xa0", "\u1680", *map(chr, range(0x2000, 0x200B)),
    "\u2028", "\u2029", "\u202f", "\u205f", "\u3000",
)  # fmt: skip


def has_other_space(text: str, *, line_breaks: int = 0) -> bool:
    """Whether a text has white space other than plain spaces and that many line breaks."""
    return text.count("\n") != line_breaks or any(char in text for char in _OTHER)


def collapse_lines(text: str) -> str:
    """Make each run of white space one plain space, and none at the ends of a line; line breaks stay."""
    if _is_tight(text):
        return text
    for char in _OTHER:
        if char in text:
            text = text.replace(char, " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text.replace(" \n", "\n").replace("\n ", "\n").strip(" ")


def _is_tight(text: str) -> bool:
    """Whether an ASCII text is surely collapsed: no blank beside a blank, and none but plain spaces and line breaks."""
    if not text.isascii() or not text:
        return False
    codes = np.frombuffer(text.encode(), dtype=np.uint8)
    is_blank = codes <= ord(" ")
    beside = is_blank[1:] & is_blank[:-1]
    controls = np.count_nonzero(codes < ord(" "))
    return not (is_blank[0] or is_blank[-1] or beside.any()) and controls == np.count_nonzero(codes == ord("\n"))
