"""Name what kind of mistake a wrong answer is, from the text alone: what makes a list of errors worth reading."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from difflib import SequenceMatcher
from enum import StrEnum

NEAR_MISS = 0.65
"""Share of matching characters (Ratcliff and Obershelp) from which an answer is a near miss."""
MIN_PART = 3
"""Fewer characters than that stand in too many texts by chance."""
_COMPARED = 400


class Mistake(StrEnum):
    """Kinds of mistakes, the first that fits counts."""

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
        answer: what the model said.
        references: the accepted answers.
        finish_reason: `length` means that the token limit cut it.
        neighbours: normalised answers of the other questions about the same images.
    """
    said = normalise(answer)
    accepted = [text for text in (normalise(reference) for reference in references) if text]
    if not said:
        return Mistake.NOTHING
    if finish_reason == "length":
        return Mistake.CUT_OFF
    if said in neighbours and said not in accepted:
        return Mistake.NEIGHBOUR
    if any(_stands_in(text, said) for text in accepted):
        return Mistake.WORDY
    if any(_stands_in(said, text) for text in accepted):
        return Mistake.PARTIAL
    if any(is_near(said, text) for text in accepted):
        return Mistake.NEAR
    return Mistake.DIFFERENT


def normalise(text: str) -> str:
    """Make texts comparable: NFKC, casefold, white space collapsed and stripped."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def similarity(a: str, b: str) -> float:
    """Return the share of matching characters, between 0 and 1, of at most the first 400 of each."""
    return SequenceMatcher(None, a[:_COMPARED], b[:_COMPARED], autojunk=False).ratio()


def is_near(a: str, b: str) -> bool:
    """Say whether texts are as similar as a near miss; most that are not are found out at a glance."""
    matcher = SequenceMatcher(None, a[:_COMPARED], b[:_COMPARED], autojunk=False)
    bounds = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)
    return all(bound() >= NEAR_MISS for bound in bounds)


def _stands_in(part: str, whole: str) -> bool:
    """Say whether a text stands in a longer one: as whole words, or anywhere if it is not tiny."""
    return part != whole and (f" {part} " in f" {whole} " or (len(part) >= MIN_PART and part in whole))
