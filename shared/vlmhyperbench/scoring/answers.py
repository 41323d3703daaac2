"""What every extractor starts from: an answer without its reasoning, its lines, and what it announces."""

from __future__ import annotations

import re
from collections import Counter, deque

MARKS = " \t\r\n*_`\"'"
"""What may stand around an answer without being part of it: white space, emphasis, quotation marks."""

_REASONING = re.compile(r"<(/?)(think|thinking|reasoning)>", re.IGNORECASE | re.ASCII)
_ANNOUNCED = re.compile(
    r"(?:####|(?<!not )(?<!n't )(?<!n\N{RIGHT SINGLE QUOTATION MARK}t )(?<!unable to )(?<!no )"
    r"\b(?:final answer|answer)[*_`]{0,3}(?: is)?[*_`]{0,3}[ \t]{0,4}:|\banswer is\b)",
    re.IGNORECASE,
)


class Unreadable(Exception):
    """There is nothing in the answer that this extractor could read; the text is a short reason."""


def after_reasoning(answer: str) -> str:
    """Return what follows the last closing reasoning tag: what stands before or between reasoning is no answer.

    A closing tag without an opening one closes what the prompt opened. A tag is closed by its own name, as often as
    it was opened.

    Raises:
        Unreadable: a tag is still open at the end.
    """
    opened = Counter[str]()
    start = 0
    for tag in _REASONING.finditer(answer):
        name = tag[2].lower()
        if tag[1]:
            opened[name] = max(0, opened[name] - 1)
            start = tag.end()
        else:
            opened[name] += 1
    if opened.total():
        raise Unreadable("unfinished_reasoning")
    return answer[start:]


def announced(text: str) -> str | None:
    """Return what follows the last announcement of an answer; `I cannot answer:` announces none."""
    last = deque(_ANNOUNCED.finditer(text), maxlen=1)
    return text[last[0].end() :].lstrip(MARKS + ":") if last else None


def lines_of(text: str) -> list[str]:
    """Return the lines that are not blank.

    Raises:
        Unreadable: there is none.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise Unreadable("empty")
    return lines
