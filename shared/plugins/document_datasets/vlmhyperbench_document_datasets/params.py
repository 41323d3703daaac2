"""Parse the params of datasets: all wrong names and values are refused at once, with the most similar name."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonObject, JsonValue


def unknown_params(params: JsonObject, known: Collection[str]) -> list[str]:
    """Return a problem for each param that the dataset does not have."""
    return [_unknown(name, known) for name in params if name not in known]


def integer(params: JsonObject, name: str, *, default: int, min_value: int, max_value: int) -> tuple[int, list[str]]:
    """Return a bounded whole number and its problems."""
    value: JsonValue = params.get(name, default)
    if isinstance(value, int) and not isinstance(value, bool) and min_value <= value <= max_value:
        return value, []
    return default, [f"{name}: {value!r} is not a whole number from {min_value} to {max_value}."]


def choices(params: JsonObject, name: str, *, known: Collection[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return a list of different choices, by default empty, and its problems."""
    value: JsonValue = params.get(name, ())
    if not isinstance(value, (list, tuple)):
        return (), [f"{name}: {value!r} is no list."]
    wrong = [f"{name}: {word!r} is none of {', '.join(known)}." for word in value if word not in known]
    if not wrong and len(set(value)) < len(value):
        wrong = [f"{name}: a word comes twice."]
    return (() if wrong else tuple(str(word) for word in value)), wrong


def choice(params: JsonObject, name: str, *, default: str, known: Collection[str]) -> tuple[str, list[str]]:
    """Return a choice and its problems."""
    value: JsonValue = params.get(name, default)
    if isinstance(value, str) and value in known:
        return value, []
    return default, [f"{name}: {value!r} is none of {', '.join(known)}."]


def refuse(dataset: str, problems: list[str]) -> None:
    """Raise `InvalidInput` with all problems, if there are any."""
    if problems:
        raise InvalidInput(f"The params of the dataset {dataset} are wrong. {' '.join(problems)}", cure="Correct them.")


def _unknown(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"{name}: there is no such param; did you mean {near[0]}?"
    return f"{name}: there is no such param; known are {', '.join(sorted(known)) or 'none'}."
