"""Name the kind of mistake of a wrong answer, from its text alone."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from difflib import SequenceMatcher
from enum import StrEnum

NEAR_MISS = 0.65
"""Smallest share of matching characters (Ratcliff and Obershelp) of a near miss."""
MIN_PART = 3
"""Smallest number of characters that is searched for inside words: shorter texts occur in many words by chance."""
MAX_COMPARED = 400
"""Characters of a text that are compared."""


class Mistake(StrEnum):
    """Kinds of mistakes; an answer has the first that applies."""

    NOTHING = "no answer"
    CUT_OFF = "cut off at the token limit"
    NEIGHBOUR = "another answer of the same page"
    WORDY = "right answer inside a longer text"
    PARTIAL = "part of the answer"
    NEAR = "near miss"
    DIFFERENT = "something else"


def kind_of_mistake(
    answer: str, references: Sequence[str], *, finish_reason: str | None = None, neighbours: Collection[str] = ()
) -> Mistake:
    """Return the kind of a wrong answer.

    Args:
        answer: Answer of the model.
        references: Accepted answers.
        finish_reason: `length` means that the token limit cut the answer off.
        neighbours: Normalised answers to the other questions about the same images.
    """
    text = normalise(answer)
    accepted = [reference for reference in map(normalise, references) if reference]
    if not text:
        return Mistake.NOTHING
    if finish_reason == "length":
        return Mistake.CUT_OFF
    if text in neighbours and text not in accepted:
        return Mistake.NEIGHBOUR
    if any(_is_part(reference, text) for reference in accepted):
        return Mistake.WORDY
    if any(_is_part(text, reference) for reference in accepted):
        return Mistake.PARTIAL
    if any(is_near(text, reference) for reference in accepted):
        return Mistake.NEAR
    return Mistake.DIFFERENT


def normalise(text: str) -> str:
    """Make texts comparable: NFKC, case folded, white space collapsed and stripped."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def similarity(first: str, second: str) -> float:
    """Return the share of matching characters, from 0 to 1, of at most the first 400 of each text."""
    return _matcher(first, second).ratio()


def is_near(first: str, second: str) -> bool:
    """Return whether the similarity of two texts is at least `NEAR_MISS`; cheap upper bounds are tried first."""
    matcher = _matcher(first, second)
    bounds = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)
    return all(bound() >= NEAR_MISS for bound in bounds)


def _matcher(first: str, second: str) -> SequenceMatcher[str]:
    return SequenceMatcher(None, first[:MAX_COMPARED], second[:MAX_COMPARED], autojunk=False)


def _is_part(part: str, whole: str) -> bool:
    """Return whether a longer text contains a text: as whole words, or anywhere from `MIN_PART` characters on."""
    return part != whole and (f" {part} " in f" {whole} " or (len(part) >= MIN_PART and part in whole))
