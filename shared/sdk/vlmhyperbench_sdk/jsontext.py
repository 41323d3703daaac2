"""Read JSON that strangers wrote: RFC 8259 to the letter, or a reason why not."""

from __future__ import annotations

import json
import math
from typing import NoReturn, cast

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonValue

MAX_DEPTH = 64


def parse_json(
    text: str | bytes, *, what: str = "The text", max_depth: int = MAX_DEPTH, any_text: bool = False
) -> JsonValue:
    """Parse JSON without duplicate keys, NaN, infinities, NUL or lone surrogates, at most `max_depth` deep.

    `any_text` lets NUL and lone surrogates pass: what is only measured may hold them, what is stored may not.

    Raises:
        InvalidInput: it is not such a text; the message begins with `what`.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite)
    except RecursionError as error:
        raise InvalidInput(f"{what} is nested too deeply.") from error
    except ValueError as error:
        raise InvalidInput(f"{what} is not JSON: {error}.") from error
    _check(value, max_depth, what, any_text)
    return cast("JsonValue", value)


def parse_object(
    text: str | bytes, *, what: str = "The text", max_depth: int = MAX_DEPTH, any_text: bool = False
) -> dict[str, JsonValue]:
    """Parse JSON whose outermost value is an object; arguments as of `parse_json`.

    Raises:
        InvalidInput: it is not JSON, or not an object.
    """
    value = parse_json(text, what=what, max_depth=max_depth, any_text=any_text)
    if not isinstance(value, dict):
        raise InvalidInput(f"{what} is not a JSON object.")
    return value


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key[:100]!r} appears twice")
            seen.add(key)
    return made


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:40]} is out of range")
    return value


def _check(value: object, depth: int, what: str, any_text: bool) -> None:
    if isinstance(value, str):
        if not any_text:
            _check_text(value, what)
    elif isinstance(value, (list, dict)):
        if depth <= 0:
            raise InvalidInput(f"{what} is nested too deeply.")
        if isinstance(value, dict):
            for key in value:
                _check(key, depth, what, any_text)
        for item in value.values() if isinstance(value, dict) else value:
            _check(item, depth - 1, what, any_text)


def _check_text(text: str, what: str) -> None:
    if "\0" in text:
        raise InvalidInput(f"{what} holds a NUL character.")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(f"{what} holds a lone surrogate.") from error
