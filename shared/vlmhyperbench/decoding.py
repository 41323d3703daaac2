"""Decode JSON values into frozen dataclasses, strictly by their annotations; each error names its location.

Numbers are not converted: 1 for an expected float stays 1, so that encoding the result again gives the same JSON.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError

from vlmhyperbench.errors import pydantic_message
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonObject, JsonValue

MAX_INTEGER = 2**63
_NAMES = {str: "text", bool: "true or false", int: "an integer", float: "a number"}

T = TypeVar("T")


def decode(kind: type[T], value: JsonValue, location: str) -> T:
    """Return the value as `kind`: a dataclass, a model, a tuple, a mapping, a Literal, a scalar, or a union of those.

    For a union with several dataclasses, the key `type` must be the `tag_of` the right one.

    Raises:
        InvalidInput: the value does not fit; the message begins with `location`.
    """
    return cast("T", _decode(kind, value, location))


def tag_of(kind: type) -> str:
    """Return the tag of a class in a union: `table` for `Table`, `figure` for `FigureSpec`."""
    return kind.__name__.lower().removesuffix("spec")


def _decode(kind: object, value: JsonValue, location: str) -> object:
    origin = get_origin(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        return _instance(kind, value, location)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _model(kind, value, location)
    if origin in (Union, types.UnionType):
        return _one_of(get_args(kind), value, location)
    if origin is Mapping:
        return _mapping(get_args(kind)[1], value, location)
    if origin is Sequence:
        return list(_items((get_args(kind)[0], ...), value, location))
    if origin is tuple:
        return _items(get_args(kind), value, location)
    if origin is Literal:
        if value not in get_args(kind):
            raise InvalidInput(f"{location} is not one of {', '.join(get_args(kind))}.")
    elif not _fits(kind, value):
        raise InvalidInput(f"{location} is not {_NAMES[cast('type', kind)]}.")
    return value


def _instance(kind: type, value: JsonValue, location: str) -> object:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{location} is not an object.")
    known = _fields(kind)
    for name in value:
        if name not in known:
            raise InvalidInput(f"{location} contains {name[:100]!r}, which this version does not know.")
    for name, (_, is_required) in known.items():
        if is_required and name not in value:
            raise InvalidInput(f"{location} lacks {name!r}.")
    decoded = {name: _decode(known[name][0], item, f"{location}.{name}") for name, item in value.items()}
    try:
        return kind(**decoded)
    except InvalidInput as error:
        raise InvalidInput(f"{location}: {error.message}") from error


def _model(kind: type[BaseModel], value: JsonValue, location: str) -> object:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        problem = error.errors()[0]
        path = ".".join(map(str, (location, *problem["loc"])))
        raise InvalidInput(f"{path}: {pydantic_message(problem)}.") from error


def _mapping(kind: object, value: JsonValue, location: str) -> object:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{location} is not an object.")
    return {name: _decode(kind, item, f"{location}.{name}") for name, item in value.items()}


def _one_of(kinds: Sequence[object], value: JsonValue, location: str) -> object:
    if isinstance(value, Mapping):
        for kind in kinds:
            if get_origin(kind) is Mapping:
                return _decode(kind, value, location)
        return _tagged([kind for kind in kinds if isinstance(kind, type) and is_dataclass(kind)], value, location)
    for kind in kinds:
        if get_origin(kind) in (tuple, Sequence) and _is_list(value):
            return _decode(kind, value, location)
        if _fits(kind, value) or (get_origin(kind) is Literal and value in get_args(kind)):
            return value
    raise InvalidInput(f"{location} has a value of another type than allowed.")


def _tagged(classes: Sequence[type], value: JsonObject, location: str) -> object:
    if len(classes) == 1:
        return _instance(classes[0], value, location)
    by_tag = {tag_of(kind): kind for kind in classes}
    tag = value.get("type")
    if not isinstance(tag, str) or tag not in by_tag:
        raise InvalidInput(f"{location}.type is not one of {', '.join(by_tag) or 'the allowed types'}.")
    return _instance(by_tag[tag], {name: item for name, item in value.items() if name != "type"}, location)


def _items(kinds: Sequence[object], value: JsonValue, location: str) -> tuple[object, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InvalidInput(f"{location} is not a list.")
    wanted = [kinds[0]] * len(value) if kinds[-1] is Ellipsis else kinds
    if len(value) != len(wanted):
        raise InvalidInput(f"{location} has {len(value)} entries instead of {len(wanted)}.")
    return tuple(
        _decode(kind, item, f"{location}[{i}]") for i, (kind, item) in enumerate(zip(wanted, value, strict=True))
    )


def _is_list(value: JsonValue) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _fits(kind: object, value: JsonValue) -> bool:
    if kind is Any:
        return True
    if isinstance(value, bool):
        return kind is bool
    if isinstance(value, int):
        return kind in (int, float) and abs(value) < MAX_INTEGER
    return isinstance(kind, type) and isinstance(value, kind)


@cache
def _fields(kind: type) -> dict[str, tuple[object, bool]]:
    """Return name → (annotation, whether the field is required)."""
    hints = get_type_hints(kind, localns={"JsonValue": Any})  # the alias JsonValue refers to itself
    return {
        field.name: (hints[field.name], field.default is MISSING and field.default_factory is MISSING)
        for field in fields(kind)
    }
