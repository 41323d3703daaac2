"""JSON in answers, and the one form in which equal JSON is equal text."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Final

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.jsontext import NumberText, compact_json, parse_json, repair_json
from vlmhyperbench_sdk.types import JsonValue

_MAX_EXPONENT: Final = 400


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


def canonical(value: JsonValue, *, text: Callable[[str], str] | None = None) -> str:
    """Write JSON in its one form: keys in order, no spaces, equal numbers equally, and what `text` makes of texts."""
    return compact_json(value, number=_plain, text=text)


def digits(number: Decimal) -> str:
    """Write a number without needless digits: 1.50 and 1.5 are the same."""
    text = format(number, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _plain(text: NumberText) -> str:
    number = Decimal(text)
    return digits(number) if abs(number.adjusted()) < _MAX_EXPONENT else text
