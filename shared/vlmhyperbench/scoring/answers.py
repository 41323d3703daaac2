"""Steps that extractors share: remove the reasoning, split into lines, find an announced answer."""

from __future__ import annotations

import re
from collections import Counter

MARKS = " \t\r\n*_`\"'"
"""Characters around an answer that are not part of it: white space, emphasis, quotation marks."""
_REASONING = re.compile(r"<(/?)(think|thinking|reasoning)>", re.IGNORECASE | re.ASCII)
_ABOUT_IT = (
    "correct|right|accurate|true|wrong|incorrect|helpful|useful|clear|easy|obvious|obtained|found|calculated|computed|"
    "derived|determined|given|based|explained|shown|reached|supported|confirmed"
)
_ANNOUNCED = re.compile(
    r"\b(?P<chatter>(?:this|that|your)(?: final)? answer is\b"
    r"|(?:if|whether|hope|hope that) (?:the|my)(?: final| correct)? answer is\b)"
    rf"|\b(?P<aside>(?:the|my)(?: final)? answer is(?= (?:indeed |\w{{1,20}}ly )?(?:{_ABOUT_IT})\b))"
    r"|####|(?<!not )(?<!n't )(?<!n\N{RIGHT SINGLE QUOTATION MARK}t )(?<!unable to )(?<!no )"
    r"\b(?:final answer|answer)[*_`]{0,3}(?: is)?[*_`]{0,3}[ \t]{0,4}:"
    r"|\banswer is\b",
    re.IGNORECASE,
)
"""Announcements of an answer; `chatter` announces none, and an `aside` only if nothing else in the answer does."""


class Unreadable(Exception):
    """The extractor cannot parse the answer; the text is a short reason."""


def after_reasoning(answer: str) -> str:
    """Return the text after the last closing reasoning tag: text before or between reasoning is no answer.

    A closing tag without an opening tag closes reasoning that the prompt opened. A tag is closed by a tag of the same
    name, as often as it was opened.

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
    """Return the text after the last announcement of an answer; `I cannot answer:` is no announcement.

    A remark about an answer, such as `I hope this answer is helpful` or `the answer is obtained by adding`, is no
    announcement. `the answer is right` is one if there is no other, because `right` may be the answer.
    """
    last: dict[str | None, int] = {}
    for match in _ANNOUNCED.finditer(text):
        last[match.lastgroup] = match.end()
    end = last.get(None, last.get("aside"))
    return None if end is None else text[end:].lstrip(MARKS + ":")


def lines_of(text: str) -> list[str]:
    """Return the lines that are not blank.

    Raises:
        Unreadable: all lines are blank.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise Unreadable("empty")
    return lines
