"""Strip the reasoning that a model writes before its answer, between tags such as `<think>`. Pure."""

from __future__ import annotations

from typing import Final

TAGS: Final = ("think", "reasoning", "analysis", "reflection")


def without_reasoning(text: str) -> str:
    """Return a text without its parts between reasoning tags; where nothing else is left, the text as it is."""
    answer = text
    for tag in TAGS:
        answer = _without(answer, f"<{tag}>", f"</{tag}>")
    answer = answer.strip()
    return answer if answer and answer != text.strip() else text


def _without(text: str, opening: str, closing: str) -> str:
    lowered = text.casefold() if text.isascii() else text.lower()
    if len(lowered) != len(text):  # some letters get longer in lower case, so that positions would differ
        lowered = text
    kept: list[str] = []
    at = 0
    while (start := lowered.find(opening, at)) >= 0 and (end := lowered.find(closing, start)) >= 0:
        kept.append(text[at:start])
        at = end + len(closing)
    return "".join([*kept, text[at:]])
