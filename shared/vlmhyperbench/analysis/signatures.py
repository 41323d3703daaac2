"""Name how a near miss differs from its reference, so that mistakes of one kind can be counted together."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher

from vlmhyperbench.analysis.mistakes import MAX_COMPARED, NEAR_MISS, normalise, similarity

MAX_EDITS = 3
MAX_EDIT = 4


def edit_signature(answer: str, references: Sequence[str]) -> str:
    """Name in a few words how an answer differs from the nearest reference; empty where it is no near miss.

    The first kind that applies is returned: a difference in letter case, white space, accents, or punctuation and signs
    only; more or less text at the ends; or up to three edits of at most four characters, in which all digits are equal.
    """
    near = [reference for reference in references if normalise(reference)]
    if not answer.strip() or not near:
        return ""
    nearest = max(near, key=lambda reference: similarity(normalise(reference), normalise(answer)))
    actual, expected = (unicodedata.normalize("NFKC", text).strip()[:MAX_COMPARED] for text in (answer, nearest))
    for name, without in _IGNORED:
        if without(actual) == without(expected):
            return "" if actual == expected else name
    actual, expected = actual.casefold(), expected.casefold()
    at_ends = _name_ends(actual, expected)
    if at_ends:
        return at_ends
    if similarity(actual, expected) < NEAR_MISS:
        return ""
    edits = list(_edits(actual, expected))
    if len(edits) > MAX_EDITS or any(len(part) > MAX_EDIT for edit in edits for part in edit):
        return "several edits"
    return ", ".join(sorted({_name_edit(removed, added) for removed, added in edits}))


def _name_ends(actual: str, expected: str) -> str:
    """Name text that is added or missing at an end, where it is longer than an edit."""
    if len(actual) > len(expected) + MAX_EDIT:
        longer, shorter, name = actual, expected, "more text"
    elif len(expected) > len(actual) + MAX_EDIT:
        longer, shorter, name = expected, actual, "text missing"
    else:
        return ""
    if longer.startswith(shorter):
        return f"{name} after it" if name == "more text" else f"{name} at the end"
    if longer.endswith(shorter):
        return f"{name} before it" if name == "more text" else f"{name} at the start"
    return f"{name} around it" if shorter in longer else ""


def _edits(actual: str, expected: str) -> Iterator[tuple[str, str]]:
    """Yield the removed and the added text of each edit; one of the two may be empty."""
    matcher = SequenceMatcher(None, expected, actual, autojunk=False)
    for operation, from_a, to_a, from_b, to_b in matcher.get_opcodes():
        if operation != "equal":
            yield expected[from_a:to_a], actual[from_b:to_b]


def _name_edit(removed: str, added: str) -> str:
    if not added:
        return f"{_name_text(removed)} missing"
    if not removed:
        return f"{_name_text(added)} too much"
    if removed.isdigit() and added.isdigit():
        return "another digit" if len(removed) == len(added) == 1 else "other digits"
    return f"“{removed}” as “{added}”"


def _name_text(text: str) -> str:
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
