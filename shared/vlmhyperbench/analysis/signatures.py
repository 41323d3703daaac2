"""Name how a near miss differs from what was expected, so that mistakes of one kind can be counted together."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher

from vlmhyperbench.analysis.mistakes import NEAR_MISS, normalise, similarity

MAX_EDITS = 3
MAX_EDIT = 4
_COMPARED = 400


def edit_signature(answer: str, references: Sequence[str]) -> str:
    """Say in a few words how an answer differs from the nearest reference; empty where it is no near miss.

    The first that fits: letter case, white space, accents, punctuation or signs; how much of the ends is too much or
    missing; then up to three edits of at most four characters, where any digit stands for every digit.
    """
    near = [reference for reference in references if normalise(reference)]
    if not answer.strip() or not near:
        return ""
    nearest = max(near, key=lambda reference: similarity(normalise(reference), normalise(answer)))
    said, expected = (unicodedata.normalize("NFKC", text).strip()[:_COMPARED] for text in (answer, nearest))
    for name, without in _IGNORED:
        if without(said) == without(expected):
            return "" if said == expected else name
    low_said, low_expected = said.casefold(), expected.casefold()
    whole = _ends(low_said, low_expected)
    if whole:
        return whole
    if similarity(low_said, low_expected) < NEAR_MISS:
        return ""
    edits = list(_edits(low_said, low_expected))
    if len(edits) > MAX_EDITS or any(len(part) > MAX_EDIT for edit in edits for part in edit):
        return "several edits"
    return ", ".join(sorted({_described(lost, new) for lost, new in edits}))


def _ends(said: str, expected: str) -> str:
    """Name text that is too much or missing at an end, when it is longer than an edit."""
    if len(said) > len(expected) + MAX_EDIT:
        longer, shorter, name = said, expected, "more text"
    elif len(expected) > len(said) + MAX_EDIT:
        longer, shorter, name = expected, said, "text missing"
    else:
        return ""
    if longer.startswith(shorter):
        return f"{name} after it" if name == "more text" else f"{name} at the end"
    if longer.endswith(shorter):
        return f"{name} before it" if name == "more text" else f"{name} at the start"
    return f"{name} around it" if shorter in longer else ""


def _edits(said: str, expected: str) -> Iterator[tuple[str, str]]:
    """Pairs of what was lost and what stands there instead; one of the two may be empty."""
    matcher = SequenceMatcher(None, expected, said, autojunk=False)
    for operation, from_a, to_a, from_b, to_b in matcher.get_opcodes():
        if operation != "equal":
            yield expected[from_a:to_a], said[from_b:to_b]


def _described(lost: str, new: str) -> str:
    if not new:
        return f"{_named(lost)} missing"
    if not lost:
        return f"{_named(new)} too much"
    if lost.isdigit() and new.isdigit():
        return "another digit" if len(lost) == len(new) == 1 else "other digits"
    return f"“{lost}” as “{new}”"


def _named(text: str) -> str:
    if text.isdigit():
        return "digit" if len(text) == 1 else "digits"
    return "space" if text.isspace() else f"“{text}”"


def _without_accents(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", text.casefold()) if not unicodedata.combining(c))


def _letters_and_digits(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())


_IGNORED: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("letter case", str.casefold),
    ("white space", lambda text: "".join(text.casefold().split())),
    ("accents", _without_accents),
    ("punctuation or signs", _letters_and_digits),
)
