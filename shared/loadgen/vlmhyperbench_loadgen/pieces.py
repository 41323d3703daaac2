"""Most events of a stream are a piece of text and nothing else, written alike: they are read without parsing each.

What surrounds the text is learnt from one that was parsed. A text without quotes, backslashes and control characters
stands for itself in JSON, so an event with the same bytes around another such text says the same of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import orjson

PlainKind = Literal["content", "reasoning"]

_KEYS: dict[str, PlainKind] = {"content": "content", "reasoning_content": "reasoning", "reasoning": "reasoning"}
_BLANK = b"\n\n"
_CONTROLS = bytes(range(0x20))
_MOST = 256
"""Pieces that are taken at once: what is found wrong with the last of them costs no more than these."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """What surrounds the text, from the beginning of an event's line to the blank line after it."""

    kind: PlainKind
    before: bytes
    after: bytes


@dataclass(frozen=True, slots=True)
class Pieces:
    """Consecutive events that are alike."""

    texts: list[str]
    places: list[int]
    """Where each one's line ends in the payload."""
    end: int
    """Where the event after them begins."""


def learn(data: bytes, event: dict[str, Any], prefix: bytes) -> Likeness | None:
    """Return what is around the text of a parsed event, or None if that is not all it says.

    Args:
        data: of the event.
        event: the same, parsed.
        prefix: what stands before the data of an event in its line.
    """
    found = _plain_text(event)
    if found is None:
        return None
    kind, text = found
    try:
        quoted = b'"' + text.encode() + b'"'
    except UnicodeEncodeError:
        return None
    if data.count(quoted) != 1:
        return None
    before, _, after = data.partition(quoted)
    before, after = before + b'"', b'"' + after
    # The same text may stand for something else, where its own is written with escapes.
    try:
        probe = _plain_text(orjson.loads(before + b"probe" + after))
    except orjson.JSONDecodeError:
        return None
    return Likeness(kind, prefix + before, after + _BLANK) if probe == (kind, "probe") else None


def take_alike(payload: bytes, first: int, like: Likeness) -> Pieces:
    """Read the events from `first` on that are like the one that was learnt, up to the first that is not."""
    before, after, at = like.before, like.after, first
    texts: list[bytes] = []
    places: list[int] = []
    while payload.startswith(before, at) and len(texts) < _MOST:
        start = at + len(before)
        end = payload.find(b'"', start)
        text = payload[start:end]
        if end <= start or b"\\" in text or not payload.startswith(after, end):
            break
        at = end + len(after)
        texts.append(text)
        places.append(at - len(_BLANK))
    good = _decode(texts)
    places = places[: len(good)]
    return Pieces(good, places, places[-1] + len(_BLANK) if good else first)


def _decode(texts: list[bytes]) -> list[str]:
    """Decode texts up to the first that does not stand for itself."""
    # None of them holds a quote.
    together = _read(b'"'.join(texts)) if texts else None
    if together is not None:
        return together.split('"')
    good: list[str] = []
    for text in map(_read, texts):
        if text is None:
            break
        good.append(text)
    return good


def _read(text: bytes) -> str | None:
    """Decode a text; None where it is not Unicode, or has characters that JSON does not allow."""
    if len(text.translate(None, _CONTROLS)) < len(text):
        return None
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None


def _plain_text(event: object) -> tuple[PlainKind, str] | None:
    """Return the text of an event that is nothing but a piece of content or of reasoning of the first choice."""
    if not isinstance(event, dict) or event.get("usage") or event.get("error"):
        return None
    choices = event.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return None
    choice = choices[0]
    if choice.get("index", 0) != 0:
        return None
    delta = choice.get("delta")
    if choice.get("finish_reason") is not None or not isinstance(delta, dict) or len(delta) != 1:
        return None
    [(key, text)] = delta.items()
    kind = _KEYS.get(key)
    return (kind, text) if kind is not None and isinstance(text, str) and text else None
