"""JSON in answers."""

from __future__ import annotations

from contextlib import suppress

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.jsontext import parse_json, repair_json
from vlmhyperbench_sdk.types import JsonValue


def read_json(text: str) -> tuple[JsonValue] | None:
    """Return the JSON in an answer, numbers with all their digits, in a tuple since null is a value; None if none."""
    return read_whole(text) or read_repaired(text)


def read_whole(text: str) -> tuple[JsonValue] | None:
    """Return the JSON that an answer is as a whole, as `read_json` does; None if it is none."""
    with suppress(InvalidInput):
        return (parse_json(text, exact=True),)
    return None


def read_repaired(text: str) -> tuple[JsonValue] | None:
    """Return the JSON that stands in an answer among other text, as `read_json` does; None if there is none."""
    brackets = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    opening = text[min(brackets)] if brackets else "{"
    with suppress(InvalidInput):
        return (parse_json(repair_json(text, opening="[" if opening == "[" else "{")[0], exact=True),)
    return None
