"""Make text valid: answers and files of other tools may hold lone surrogates, and NUL, which databases refuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from vlmhyperbench_sdk.types import JsonObject, JsonValue

Text = TypeVar("Text", str, str | None)


def valid_unicode(text: Text) -> Text:
    """Join surrogate pairs; lone surrogates become U+FFFD."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def storable(text: Text) -> Text:
    """Return valid Unicode without NUL, which becomes U+FFFD too."""
    return text if text is None else valid_unicode(text).replace("\0", "\N{REPLACEMENT CHARACTER}")


def storable_json(document: JsonObject) -> JsonObject:
    """Make every name and every text of a JSON object storable."""
    return {storable(name): _storable_value(value) for name, value in document.items()}


def _storable_value(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return storable_json(value)
    if isinstance(value, Sequence):
        return [_storable_value(item) for item in value]
    return value
