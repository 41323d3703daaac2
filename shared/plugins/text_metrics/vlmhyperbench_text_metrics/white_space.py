"""White space other than the plain space, as Python defines it; it is rare, so a search for it first saves time."""

from __future__ import annotations

import numpy as np

_OTHER = (
    "\t", "\v", "\f", "\r", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\xa0", "\u1680", *map(chr, range(0x2000, 0x200B)),
    "\u2028", "\u2029", "\u202f", "\u205f", "\u3000",
)  # fmt: skip


def has_other_space(text: str) -> bool:
    """Return whether a text has white space other than plain spaces."""
    return "\n" in text or any(char in text for char in _OTHER)


def collapsed_lines(text: str) -> list[str]:
    """Split a text into lines, with white space collapsed to single spaces and stripped at their ends."""
    if text.isascii():
        lines = text.split("\n")
        for line in _loose_lines(text):
            lines[line] = " ".join(lines[line].split())
        return lines
    for char in _OTHER:
        if char in text:
            text = text.replace(char, " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text.replace(" \n", "\n").replace("\n ", "\n").strip(" ").split("\n")


def _loose_lines(text: str) -> set[int]:
    """Find the lines of an ASCII text whose white space may need to be collapsed or stripped."""
    codes = np.frombuffer(text.encode(), dtype=np.uint8)
    is_blank = np.ones(len(codes) + 2, dtype=np.bool_)
    is_blank[1:-1] = codes <= ord(" ")
    is_beside = is_blank[1:-1] & (is_blank[:-2] | is_blank[2:])
    is_break = codes == ord("\n")
    positions = np.flatnonzero((is_beside | (codes < ord(" "))) & ~is_break)
    return set(np.searchsorted(np.flatnonzero(is_break), positions).tolist())
