"""Strip the reasoning that a model writes before its answer, between tags such as `<think>`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vlmhyperbench.domain.pipelines import MemberSpec
from vlmhyperbench.domain.request_styles import ReasoningMarks
from vlmhyperbench.domain.targets import ModelTarget

TAGS: Final = ("think", "reasoning", "analysis", "reflection")


def marks_of(member: MemberSpec) -> tuple[ReasoningMarks, ...]:
    """Return what a model writes around its reasoning, beside the usual tags."""
    return member.target.reasoning_marks if isinstance(member.target, ModelTarget) else ()


def strips_reasoning(member: MemberSpec) -> bool:
    """Return whether the reasoning of a model is left out of the answer of its stage."""
    return isinstance(member.target, ModelTarget) and member.target.strip_reasoning


def without_reasoning(text: str, marks: Sequence[ReasoningMarks] = ()) -> str:
    """Return a text without its parts between reasoning tags; where nothing else is left, the text as it is.

    `marks` are what a model writes around its reasoning beside the tags.
    """
    if not marks and "<" not in text:
        return text
    answer = text
    for mark in marks:
        if mark.begin:
            answer = _without(answer, mark.begin.lower(), mark.end.lower())
        else:
            answer = _after(answer, mark.end.lower())
    for tag in TAGS:
        answer = _without(answer, f"<{tag}>", f"</{tag}>")
    answer = answer.strip()
    return answer if answer and answer != text.strip() else text


def _after(text: str, closing: str) -> str:
    """Return what stands after the first end of a reasoning that begins with the text."""
    found = _lowered(text).find(closing)
    return text if found < 0 else text[found + len(closing) :]


def _lowered(text: str) -> str:
    """Return a text in lower case, where its positions stay the same; some letters get longer in lower case."""
    lowered = text.casefold() if text.isascii() else text.lower()
    return lowered if len(lowered) == len(text) else text


def _without(text: str, opening: str, closing: str) -> str:
    lowered = _lowered(text)
    kept: list[str] = []
    at = 0
    while (start := lowered.find(opening, at)) >= 0 and (end := lowered.find(closing, start)) >= 0:
        kept.append(text[at:start])
        at = end + len(closing)
    return "".join([*kept, text[at:]])
