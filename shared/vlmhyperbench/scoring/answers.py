"""What every extractor starts from: an answer without its reasoning, its lines, and what it announces."""

from __future__ import annotations

import re
from collections import Counter, deque

MARKS = " \t\r\n*_`\"'"
"""What may stand around an answer without being part of it: white space, emphasis, quotation marks."""
_LEADING = MARKS + ":"

_REASONING = re.compile(r"<(/?)(think|thinking|reasoning)>", re.IGNORECASE | re.ASCII)
_MARK = re.compile(
    r"####|(?<!not )(?<!n't )(?<!n\N{RIGHT SINGLE QUOTATION MARK}t )(?<!unable to )(?<!no )"
    r"\b(?:final answer|answer)[*_`]{0,3}(?: is)?[*_`]{0,3}[ \t]{0,4}:",
    re.IGNORECASE,
)
"""What announces an answer wherever it stands."""
_CHATTER = (
    r"(?:this|that|your)(?: final)? answer is\b"
    r"|(?:if|whether|hope|hope that) (?:the|my)(?: final| correct)? answer is\b"
    r"|my answer is (?:indeed |\w{1,20}ly )?(?:correct|right|accurate|true|wrong|incorrect|helpful|useful|clear)\b"
)
"""What is said about an answer, and announces none."""
_SAID = re.compile(rf"\b(?P<chatter>{_CHATTER})|\banswer is\b", re.IGNORECASE)
_CONCLUDED = re.compile(
    rf"(?:\A|\b(?:so|thus|hence|therefore)\b,?)[ *_]{{0,4}}(?!{_CHATTER})"
    r"(?:(?:the|my) )?(?:(?:final|correct) )?answer is\b",
    re.IGNORECASE,
)
"""How the text behind a mark names its answer: at its beginning, or as what follows from it."""


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
    """Return what follows the last announcement of an answer; `I cannot answer:` announces none.

    A mark (`####`, `Answer:`) counts before the words `answer is`, which may be chatter behind it. These count where
    there is no mark; behind a `####` that is one of several, as headings are; and as the beginning or the conclusion
    (`so the answer is`) of what a mark announces: its line, or all that follows where it stands alone on its line.
    """
    start = _end_of_last(_MARK, text)
    if start is None:
        start = _end_of_last(_SAID, text)
        return None if start is None else text[start:].lstrip(_LEADING)
    found = text[start:].lstrip(_LEADING)
    if text.endswith("####", 0, start) and text.count("####") > 1:
        inner = _end_of_last(_SAID, found)
    else:
        is_alone = "\n" in text[start : len(text) - len(found)]
        inner = _end_of_last(_CONCLUDED, found if is_alone else found.partition("\n")[0])
    return found if inner is None else found[inner:].lstrip(_LEADING)


def _end_of_last(pattern: re.Pattern[str], text: str) -> int | None:
    last = deque((found for found in pattern.finditer(text) if found.lastgroup != "chatter"), maxlen=1)
    return last[0].end() if last else None


def lines_of(text: str) -> list[str]:
    """Return the lines that are not blank.

    Raises:
        Unreadable: there is none.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise Unreadable("empty")
    return lines
