"""From JSON values to frozen dataclasses: strictly by their annotations, each fault with its place.

Numbers stay as they are written: 1 where a float is expected stays 1, so that what is written again is the same.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonObject, JsonValue

LARGEST_INTEGER = 2**63
_NAMES = {str: "text", bool: "true or false", int: "an integer", float: "a number"}

T = TypeVar("T")


def decode(kind: type[T], value: JsonValue, place: str) -> T:
    """Return the value as `kind`: a dataclass, a model, a tuple, a mapping, a Literal, a scalar, or a union of those.

    Where a union has several dataclasses, the key `type` holds the `tag_of` one of them.

    Raises:
        InvalidInput: it is something else; the message begins with `place`.
    """
    return cast("T", _decode(kind, value, place))


def tag_of(kind: type) -> str:
    """Name a class among others: `Table` is `table`, `FigureSpec` is `figure`."""
    return kind.__name__.lower().removesuffix("spec")


def _decode(kind: object, value: JsonValue, place: str) -> object:
    origin = get_origin(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        return _instance(kind, value, place)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _model(kind, value, place)
    if origin in (Union, types.UnionType):
        return _one_of(get_args(kind), value, place)
    if origin is Mapping:
        return _mapping(get_args(kind)[1], value, place)
    if origin is Sequence:
        return list(_items((get_args(kind)[0], ...), value, place))
    if origin is tuple:
        return _items(get_args(kind), value, place)
    if origin is Literal:
        if value not in get_args(kind):
            raise InvalidInput(f"{place} is none of {', '.join(get_args(kind))}.")
    elif not _fits(kind, value):
        raise InvalidInput(f"{place} is not {_NAMES[cast('type', kind)]}.")
    return value


def _instance(kind: type, value: JsonValue, place: str) -> object:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{place} is no object.")
    known = _fields(kind)
    for name in value:
        if name not in known:
            raise InvalidInput(f"{place} holds {name[:100]!r}, which this version does not know.")
    for name, (_, is_needed) in known.items():
        if is_needed and name not in value:
            raise InvalidInput(f"{place} lacks {name!r}.")
    found = {name: _decode(known[name][0], item, f"{place}.{name}") for name, item in value.items()}
    try:
        return kind(**found)
    except InvalidInput as error:
        raise InvalidInput(f"{place}: {error.message}") from error


def _model(kind: type[BaseModel], value: JsonValue, place: str) -> object:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        problem = error.errors()[0]
        path = ".".join(map(str, (place, *problem["loc"])))
        raise InvalidInput(f"{path}: {problem['msg']}.") from error


def _mapping(kind: object, value: JsonValue, place: str) -> object:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{place} is no object.")
    return {name: _decode(kind, item, f"{place}.{name}") for name, item in value.items()}


def _one_of(kinds: Sequence[object], value: JsonValue, place: str) -> object:
    if isinstance(value, Mapping):
        for kind in kinds:
            if get_origin(kind) is Mapping:
                return _decode(kind, value, place)
        return _tagged([kind for kind in kinds if isinstance(kind, type) and is_dataclass(kind)], value, place)
    for kind in kinds:
        if get_origin(kind) in (tuple, Sequence) and _is_list(value):
            return _decode(kind, value, place)
        if _fits(kind, value) or (get_origin(kind) is Literal and value in get_args(kind)):
            return value
    raise InvalidInput(f"{place} is nothing that can stand there.")


def _tagged(classes: Sequence[type], value: JsonObject, place: str) -> object:
    if len(classes) == 1:
        return _instance(classes[0], value, place)
    by_tag = {tag_of(kind): kind for kind in classes}
    tag = value.get("type")
    if not isinstance(tag, str) or tag not in by_tag:
        raise InvalidInput(f"{place}.type is none of {', '.join(by_tag) or 'those that can stand there'}.")
    return _instance(by_tag[tag], {name: item for name, item in value.items() if name != "type"}, place)


def _items(kinds: Sequence[object], value: JsonValue, place: str) -> tuple[object, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InvalidInput(f"{place} is no list.")
    wanted = [kinds[0]] * len(value) if kinds[-1] is Ellipsis else kinds
    if len(value) != len(wanted):
        raise InvalidInput(f"{place} has {len(value)} entries instead of {len(wanted)}.")
    return tuple(_decode(kind, item, f"{place}[{i}]") for i, (kind, item) in enumerate(zip(wanted, value, strict=True)))


def _is_list(value: JsonValue) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _fits(kind: object, value: JsonValue) -> bool:
    if kind is Any:
        return True
    if isinstance(value, bool):
        return kind is bool
    if isinstance(value, int):
        return kind in (int, float) and abs(value) < LARGEST_INTEGER
    return isinstance(kind, type) and isinstance(value, kind)


@cache
def _fields(kind: type) -> dict[str, tuple[object, bool]]:
    """Name → (annotation, whether it must be given)."""
    hints = get_type_hints(kind, localns={"JsonValue": Any})  # its own name stands inside the alias
    return {
        field.name: (hints[field.name], field.default is MISSING and field.default_factory is MISSING)
        for field in fields(kind)
    }
