"""Reading of a dataset's params: wrong names and values are refused all at once, with the nearest name."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonObject, JsonValue


def unknown_params(params: JsonObject, known: Collection[str]) -> list[str]:
    """Say which params a dataset does not have."""
    return [_unknown(name, known) for name in params if name not in known]


def integer(params: JsonObject, name: str, *, default: int, least: int, most: int) -> tuple[int, list[str]]:
    """Return a bounded whole number, and what is wrong with it."""
    value: JsonValue = params.get(name, default)
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value, []
    return default, [f"{name}: {value!r} is not a whole number from {least} to {most}."]


def choices(params: JsonObject, name: str, *, known: Collection[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return some of several words, each once, none by default, and what is wrong with them."""
    value: JsonValue = params.get(name, ())
    if not isinstance(value, (list, tuple)):
        return (), [f"{name}: {value!r} is no list."]
    wrong = [f"{name}: {word!r} is none of {', '.join(known)}." for word in value if word not in known]
    if not wrong and len(set(value)) < len(value):
        wrong = [f"{name}: a word comes twice."]
    return (() if wrong else tuple(str(word) for word in value)), wrong


def choice(params: JsonObject, name: str, *, default: str, known: Collection[str]) -> tuple[str, list[str]]:
    """Return one of several words, and what is wrong with it."""
    value: JsonValue = params.get(name, default)
    if isinstance(value, str) and value in known:
        return value, []
    return default, [f"{name}: {value!r} is none of {', '.join(known)}."]


def refuse(dataset: str, problems: list[str]) -> None:
    """Raise InvalidInput with every problem, or do nothing where there is none."""
    if problems:
        raise InvalidInput(f"The params of the dataset {dataset} are wrong. {' '.join(problems)}", cure="Correct them.")


def _unknown(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"{name}: there is no such param; did you mean {near[0]}?"
    return f"{name}: there is no such param; known are {', '.join(sorted(known)) or 'none'}."
