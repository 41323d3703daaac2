"""Validate params of plugins and engines, so that an unknown choice never silently means the default."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Union

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.suggestions import choose, did_you_mean
from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer:
    """A whole number between two bounds, both allowed."""

    default: int
    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number between two bounds, both allowed."""

    default: float
    minimum: float
    maximum: float


@dataclass(frozen=True, slots=True)
class Choice:
    """One of fixed values; the first is the default."""

    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """True or false."""

    default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A text that matches a regular expression as a whole."""

    default: str
    pattern: str
    form: str
    """What it matches, in words that follow "must be"."""


EngineParam = Union[Integer, Number, Choice, Flag, Pattern]
EngineParams = Mapping[str, EngineParam]
"""Name → what the parameter may be: the table of all parameters of an engine."""


def read_engine_params(engine: str, table: EngineParams, given: JsonObject) -> dict[str, int | float | str]:
    """Return every parameter of the table, given or default, in the order of the table.

    Raises:
        InvalidInput: a name is not in the table, or a value is of the wrong type or out of range.
    """
    for name in given:
        if name not in table:
            cure = did_you_mean(name, table, nothing="Leave engine_params out.")
            raise InvalidInput(f"{engine} has no engine parameter {name!r}.", cure=cure)
    return {name: _read(engine, name, param, given.get(name)) for name, param in table.items()}


def _read(engine: str, name: str, param: EngineParam, value: object) -> int | float | str:
    """Return a parameter's value; null means the default."""
    if isinstance(param, Choice):
        if value is None:
            return param.values[0]
        if isinstance(value, str) and value in param.values:
            return value
        expected = f"one of {', '.join(param.values)}"
    elif value is None:
        return param.default
    elif isinstance(param, Flag):
        if isinstance(value, bool):
            return value
        expected = "true or false"
    elif isinstance(param, Pattern):
        if isinstance(value, str) and re.fullmatch(param.pattern, value, re.ASCII):
            return value
        expected = param.form
    else:
        kinds = int if isinstance(param, Integer) else (int, float)
        if not isinstance(value, bool) and isinstance(value, kinds) and param.minimum <= value <= param.maximum:
            return value
        kind = "a whole number" if isinstance(param, Integer) else "a number"
        expected = f"{kind} between {param.minimum} and {param.maximum}"
    raise InvalidInput(f"The parameter {name} of {engine} must be {expected}.", cure="Correct it in engine_params.")


def check_profile(metric: str, profile: str, known: Collection[str]) -> str:
    """Return a metric's profile.

    Raises:
        InvalidInput: the metric has no such profile.
    """
    if profile not in known:
        raise InvalidInput(f"The metric {metric!r} has no profile {profile!r}.", cure=choose(known))
    return profile


def check_choice(name: str, value: str, known: Collection[str]) -> str:
    """Return the value of a param with fixed choices.

    Raises:
        InvalidInput: it is not one of the choices.
    """
    if value not in known:
        raise InvalidInput(f"The param {name!r} cannot be {value!r}.", cure=choose(known))
    return value


def check_flag(name: str, value: object) -> bool:
    """Return the value of a boolean param; text is refused, since text such as "false" would count as true.

    Raises:
        InvalidInput: it is neither true nor false.
    """
    if not isinstance(value, bool):
        raise InvalidInput(f"The param {name!r} cannot be {value!r}.", cure="Write true or false, without quotes.")
    return value
