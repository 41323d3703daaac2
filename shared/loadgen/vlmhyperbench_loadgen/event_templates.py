"""Most events of a stream differ in their text alone: those are matched against a template, not parsed one by one.

The template is what surrounds the text in an event that was parsed. A text without quotes, backslashes and control
characters stands for itself in JSON, so an event with the same bytes around another such text means the same of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import orjson

PlainKind = Literal["content", "reasoning"]

_KEYS: dict[str, PlainKind] = {"content": "content", "reasoning_content": "reasoning", "reasoning": "reasoning"}
_BLANK = b"\n\n"
_CONTROLS = bytes(range(0x20))
_MAX_EVENTS = 256
"""MatchedEvents that are taken at once: what is found wrong with the last of them costs no more than these."""


@dataclass(frozen=True, slots=True)
class EventTemplate:
    """What surrounds the text, from the beginning of an event's line to the blank line after it."""

    kind: PlainKind
    before: bytes
    after: bytes


@dataclass(frozen=True, slots=True)
class MatchedEvents:
    """Consecutive events that match a template."""

    texts: list[str]
    places: list[int]
    """Where each one's line ends in the payload."""
    end: int
    """Where the event after them begins."""


def learn_template(data: bytes, event: dict[str, Any], prefix: bytes) -> EventTemplate | None:
    """Return the template of a parsed event, or None if it holds more than a piece of text.

    Args:
        data: The event's data.
        event: The same, parsed.
        prefix: What precedes the data of an event in its line.
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
    # The text may occur elsewhere in the event, where its own place is written with escapes.
    try:
        probe = _plain_text(orjson.loads(before + b"probe" + after))
    except orjson.JSONDecodeError:
        return None
    return EventTemplate(kind, prefix + before, after + _BLANK) if probe == (kind, "probe") else None


def match_events(payload: bytes, first: int, template: EventTemplate) -> MatchedEvents:
    """Match events from `first` on, up to the first one that does not match."""
    before, after, at = template.before, template.after, first
    texts: list[bytes] = []
    places: list[int] = []
    while payload.startswith(before, at) and len(texts) < _MAX_EVENTS:
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
    return MatchedEvents(good, places, places[-1] + len(_BLANK) if good else first)


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
