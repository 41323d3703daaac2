"""Parse values written by other tools: JSON, numbers and lists; a value that is not a number becomes None."""

from __future__ import annotations

import ast
import json
import math
import warnings
from collections.abc import Iterable, Mapping
from typing import cast

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench_sdk.jsontext import MAX_VALUES, check_structure, decoded, json_problem, unique_members
from vlmhyperbench_sdk.types import JsonObject, JsonValue

MAX_DEPTH = 500
"""Maximum nesting of other tools' JSON; agents' trajectories have nested lists."""
MAX_GROUP_CHARS = 200
"""Maximum length of a group value; longer texts are treated as content."""


def foreign_object(text: str | bytes, location: str, *, max_values: int | None = MAX_VALUES) -> dict[str, JsonValue]:
    """Parse a JSON object as Python's `json` writes it: `NaN` and infinities are read as null.

    Raises:
        InvalidInput: it is not a JSON object, has a duplicate key, is nested too deeply or holds too many values.
    """
    try:
        text = decoded(text)
        check_structure(text, what=f"{location}: the JSON", max_depth=MAX_DEPTH, max_values=max_values)
        value = json.loads(text, object_pairs_hook=unique_members, parse_constant=_unknown, parse_float=_finite)
    except RecursionError as error:
        message = f"{location}: the JSON is nested deeper than {MAX_DEPTH} levels."
        raise InvalidInput(message, cure="Store the content as text, or leave it out.") from error
    except ValueError as error:
        raise InvalidInput(f"{location}: this is not JSON: {json_problem(error)}.", cure=CUT_OFF) from error
    if not isinstance(value, dict):
        raise InvalidInput(f"{location}: this is not a JSON object.", cure=CUT_OFF)
    return cast("dict[str, JsonValue]", value)


CUT_OFF = "Give the file as its tool wrote it; if it was cut off, copy it again."


def object_in(value: JsonValue) -> JsonObject:
    """Return the value if it is an object, else an empty object."""
    return value if isinstance(value, Mapping) else {}


def list_in(value: JsonValue) -> list[JsonValue]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def text_in(value: JsonValue) -> str | None:
    """Return the value if it is text, else None."""
    return value if isinstance(value, str) else None


def count_in(value: JsonValue) -> int | None:
    """Return the value if it is a count, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0 or value % 1:
        return None
    return int(value)


def number_in(value: JsonValue) -> float | None:
    """Return the value if it is a finite number, else None; true and false are 1 and 0."""
    if not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def number_from(text: str | None) -> float | None:
    """Return the finite number in a cell, or None; `True` and `False` are 1 and 0."""
    if text is None:
        return None
    plain = text.strip().lower()
    if plain in {"true", "false"}:
        return 1.0 if plain == "true" else 0.0
    if "_" in plain:
        return None
    try:
        return number_in(float(plain))
    except ValueError:
        return None


def key_of(value: JsonValue, location: str, field: str) -> str:
    """Return an id as text.

    Raises:
        InvalidInput: it is neither text nor a whole number.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or value % 1:
        raise InvalidInput(f"{location}: {field} is neither text nor a whole number.", cure="Give every sample an id.")
    return str(int(value))


def listed(text: str, *, exact: bool) -> tuple[str, ...]:
    """Return the items of a list of texts that is written in Python's notation, or the text itself.

    A list of numbers remains a text, because `[2, 5]` may be an interval. With `exact`, the text must be what Python's
    `repr` gives; otherwise quotes and spaces may differ.
    """
    if not (text.startswith("[") and text.endswith("]")):
        return (text,)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about invalid escapes concern the text, not our code
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return (text,)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return (text,)
    return tuple(value) if not exact or repr(value) == text else (text,)


def groups_in(values: JsonObject, without: Iterable[str] = ()) -> dict[str, JsonValue]:
    """Return the values by which answers can be grouped: numbers, booleans and short texts."""
    left_out = set(without)
    return {name: value for name, value in values.items() if name not in left_out and _is_group(value)}


def chat_text(content: JsonValue) -> str:
    """Return the text of a chat message's content; several text parts are joined by line ends."""
    if isinstance(content, str):
        return content
    parts = [object_in(part) for part in list_in(content)]
    return "\n".join(text for part in parts if (text := text_in(part.get("text"))) is not None)


def asked_in(messages: JsonValue) -> str | None:
    """Return the text of the last user message, or None."""
    if isinstance(messages, str):
        return messages
    for message in reversed(list_in(messages)):
        turn = object_in(message)
        if turn.get("role") == "user":
            return chat_text(turn.get("content"))
    return None


def decoding_in(values: JsonObject, names: Mapping[str, str]) -> dict[str, JsonValue]:
    """Return the sampling parameters that are set, under our names; `names` maps the tool's names to ours."""
    decoding: dict[str, JsonValue] = {}
    for theirs, ours in names.items():
        value = values.get(theirs)
        if value is not None and ours not in decoding:
            decoding[ours] = [value] if ours == "stop" and isinstance(value, str) else value
    return decoding


def _is_group(value: JsonValue) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_GROUP_CHARS
    return isinstance(value, bool | int | float)


def _unknown(_name: str) -> None:
    return None


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None
