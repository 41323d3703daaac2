"""Match events that differ only in their text against a template, which is faster than parsing each as JSON.

A template holds the bytes around the text of an event that was parsed. JSON writes a text without quotes, backslashes
and control characters as it is. So an event with the same bytes around another such text differs in its text alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import orjson

PlainKind = Literal["content", "reasoning"]

_KEYS: dict[str, PlainKind] = {"content": "content", "reasoning_content": "reasoning", "reasoning": "reasoning"}
_BLANK_LINE = b"\n\n"
_CONTROLS = bytes(range(0x20))
_MAX_EVENTS = 256
"""Events that are matched at once. Where the last text cannot be decoded, each of them is decoded by itself."""


@dataclass(frozen=True, slots=True)
class EventTemplate:
    """The bytes around an event's text, from the beginning of its line to the blank line after it."""

    kind: PlainKind
    before: bytes
    after: bytes


@dataclass(frozen=True, slots=True)
class MatchedEvents:
    """Consecutive events that match a template."""

    texts: list[str]
    line_ends: list[int]
    """Offset in the payload where the line of each event ends."""
    next_offset: int
    """Offset of the event after them."""


def learn_template(data: bytes, event: dict[str, Any], prefix: bytes) -> EventTemplate | None:
    """Return the template of a parsed event, or None if the event holds more than a piece of text.

    Args:
        data: The event's data.
        event: The same data, parsed.
        prefix: What precedes the data of an event in its line.
    """
    plain = _plain_text(event)
    if plain is None:
        return None
    kind, text = plain
    try:
        quoted = b'"' + text.encode() + b'"'
    except UnicodeEncodeError:
        return None
    if data.count(quoted) != 1:
        return None
    before, _, after = data.partition(quoted)
    before, after = before + b'"', b'"' + after
    # The match may be elsewhere in the event, if the text itself is written with escapes.
    try:
        probe = _plain_text(orjson.loads(before + b"probe" + after))
    except orjson.JSONDecodeError:
        return None
    return EventTemplate(kind, prefix + before, after + _BLANK_LINE) if probe == (kind, "probe") else None


def match_events(payload: bytes, first: int, template: EventTemplate) -> MatchedEvents:
    """Match events from `first` on, up to the first one that does not match."""
    before, after, at = template.before, template.after, first
    texts: list[bytes] = []
    line_ends: list[int] = []
    while payload.startswith(before, at) and len(texts) < _MAX_EVENTS:
        start = at + len(before)
        end = payload.find(b'"', start)
        text = payload[start:end]
        if end <= start or b"\\" in text or not payload.startswith(after, end):
            break
        at = end + len(after)
        texts.append(text)
        line_ends.append(at - len(_BLANK_LINE))
    decoded = _decode(texts)
    line_ends = line_ends[: len(decoded)]
    return MatchedEvents(decoded, line_ends, line_ends[-1] + len(_BLANK_LINE) if decoded else first)


def _decode(texts: list[bytes]) -> list[str]:
    """Decode texts up to the first that JSON would not write as it is."""
    # No text holds a quote, so quotes can separate them.
    together = _decode_text(b'"'.join(texts)) if texts else None
    if together is not None:
        return together.split('"')
    decoded: list[str] = []
    for text in map(_decode_text, texts):
        if text is None:
            break
        decoded.append(text)
    return decoded


def _decode_text(text: bytes) -> str | None:
    """Decode a text; None where it is not Unicode, or has characters that JSON does not allow."""
    if len(text.translate(None, _CONTROLS)) < len(text):
        return None
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None


def _plain_text(event: object) -> tuple[PlainKind, str] | None:
    """Return the kind and text of an event that only adds content, or only reasoning, to the first choice."""
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
