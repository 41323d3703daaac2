"""The form in which YAML says where the value of a field is: the name of a column, or a mapping with how it is read."""

from __future__ import annotations

import ast
import base64
import binascii
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from vlmhyperbench_sdk.suggestions import did_you_mean
from vlmhyperbench_sdk.types import JsonObject, JsonValue
from vlmhyperbench_table_datasets.rows import Cell

KEYS: Final = ("column", "value", "parse", "split", "at", "lists", "pattern", "map", "names", "join", "default")
PARSERS: Final = ("json", "python", "base64")
MAX_PARSED_CHARS: Final = 1_000_000
"""Bound of a cell that is parsed as JSON or as a literal of Python."""


class Unmapped(Exception):
    """A cell does not have the form that the mapping states; the message follows the location of the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Where a value is, and the steps by which it is read, which are done in the order of the attributes."""

    column: str | None
    """None: `value` is the value of every row."""
    value: JsonValue = None
    parse: str | None = None
    split: str | None = None
    at: tuple[str, ...] = ()
    """Keys and indices that lead to the value inside the cell."""
    lists: tuple[tuple[str, ...], ...] = ()
    """Keys that lead to members which are lists: any other value there becomes a list of one."""
    pattern: str | None = None
    """Regular expression; its first group is the value, or else all that it matches."""
    map: Mapping[str, JsonValue] = field(default_factory=dict)
    """Text of a value → the value that replaces it."""
    names: bool = False
    """Whether numbers stand for the names of classes that the table knows."""
    join: str | None = None
    """What stands between the items of a list that becomes one text."""
    default: JsonValue = None
    """Value where the cell is empty; with it the column may be missing."""
    is_optional: bool = False

    def of(self, cells: Mapping[str, Cell], labels: Mapping[str, Sequence[str]]) -> Cell:
        """Return the value in a row.

        Raises:
            Unmapped: the column is missing, or the cell has another form.
        """
        if self.column is None:
            return self.value
        if self.column not in cells:
            if self.is_optional:
                return self.default
            raise Unmapped(f"the column {self.column!r} is missing. {did_you_mean(self.column, cells)}")
        value = cells[self.column]
        if self.parse is not None and isinstance(value, str) and value:
            value = _parsed(value, self.parse, self.column)
        if self.split is not None and isinstance(value, str):
            value = [part for part in value.split(self.split) if part]
        for key in self.at:
            value = _inside(value, key, self.column)
        for path in self.lists:
            value = _with_list(value, path)
        if self.names:
            value = _named(value, labels.get(self.column, ()), self.column)
        if self.pattern is not None:
            value = _matched(value, self.pattern, self.column)
        if self.map:
            value = _replaced(value, self.map, self.column)
        if self.join is not None and isinstance(value, (list, tuple)):
            value = self.join.join(str(part) for part in value if part is not None)
        return self.default if self.is_optional and value in (None, "") else value


def read_field(path: str, given: JsonValue, columns: Collection[str] | None) -> tuple[Field, list[str]]:
    """Read a field of the mapping.

    Args:
        path: Where it stands in the params, as errors name it.
        given: What stands there.
        columns: Columns of the table; None where only its rows know them.

    Returns:
        The field and its problems.
    """
    if isinstance(given, str):
        given = {"column": given}
    if not isinstance(given, Mapping):
        return Field(column=None), [f"{path}: {given!r} is neither the name of a column nor a mapping."]
    if problems := list(_wrong_keys(path, given)):
        return Field(column=None), problems
    column, steps = given.get("column"), _steps(given.get("at"))
    if isinstance(column, str) and columns is not None and column not in columns:
        head, dot, tail = column.partition(".")
        if dot and head in columns:
            column, steps = head, (*tail.split("."), *steps)
        elif "default" not in given:
            return Field(column=None), [f"{path}: there is no column {column!r}. {did_you_mean(column, columns)}"]
    replaced = given.get("map", {})
    return Field(
        column=_text(column),
        value=given.get("value"),
        parse=_text(given.get("parse")),
        split=_text(given.get("split")),
        at=steps,
        lists=tuple(map(_steps, lists)) if isinstance(lists := given.get("lists"), list) else (),
        pattern=_text(given.get("pattern")),
        map={_key(key): value for key, value in replaced.items()} if isinstance(replaced, Mapping) else {},
        names=given.get("names") is True,
        join=_text(given.get("join")),
        default=given.get("default"),
        is_optional="default" in given,
    ), []


def _wrong_keys(path: str, given: JsonObject) -> Iterator[str]:
    for key in given:
        if key not in KEYS:
            yield f"{path}.{key}: there is no such key. {did_you_mean(key, KEYS)}"
    column = given.get("column")
    if (column is None) == ("value" not in given):
        yield f"{path}: write either column or value."
    if column is not None and (not isinstance(column, str) or not column or "\0" in column):
        yield f"{path}.column: {column!r} is not the name of a column."
    for key, expected in _TYPES.items():
        if key in given and not isinstance(given[key], expected):
            yield f"{path}.{key}: {given[key]!r} is not {_KINDS[expected]}."
    if given.get("parse") not in (None, *PARSERS):
        yield f"{path}.parse: {given['parse']!r} is none of {', '.join(PARSERS)}."
    try:
        re.compile(_text(given.get("pattern")) or "")
    except re.error as error:
        yield f"{path}.pattern: it is no regular expression ({error})."


def _steps(at: JsonValue) -> tuple[str, ...]:
    """Return the keys of `at`: a list, or text with dots."""
    if at is None:
        return ()
    return tuple(map(str, at)) if isinstance(at, (list, tuple)) else tuple(str(at).split("."))


_TYPES: Final[Mapping[str, type]] = {
    "split": str,
    "lists": list,
    "pattern": str,
    "map": dict,
    "names": bool,
    "join": str,
}
_KINDS: Final = {str: "text", list: "a list", dict: "a mapping", bool: "true or false"}


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _key(value: object) -> str:
    """Return the text by which a value is looked up: a key of YAML may be a number or a truth value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _parsed(text: str, parser: str, column: str) -> Cell:
    if parser == "base64":
        try:
            return base64.b64decode(text.partition("base64,")[2] or text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Unmapped(f"the column {column!r} is no base64") from error
    if len(text) > MAX_PARSED_CHARS:
        raise Unmapped(f"the column {column!r} has more than {MAX_PARSED_CHARS:,} characters, too many to be parsed")
    try:
        value: Cell = json.loads(text) if parser == "json" else ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError) as error:
        what = "JSON" if parser == "json" else "literal of Python"
        raise Unmapped(f"the column {column!r} is no {what}") from error
    return value


def _inside(value: Cell, key: str, column: str) -> Cell:
    if isinstance(value, Mapping):
        if key in value:
            return value[key]
        raise Unmapped(f"the column {column!r} has no {key!r} inside. {did_you_mean(key, map(str, value))}")
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        if key.lstrip("-").isdigit():
            try:
                return value[int(key)]
            except IndexError as error:
                raise Unmapped(f"the column {column!r} has no item {key}: it has {len(value)}") from error
        return [_inside(item, key, column) for item in value]
    if value is None:
        return None
    raise Unmapped(f"the column {column!r} has no {key!r} inside: it is {kind_of(value)}")


def _with_list(value: Cell, path: Sequence[str]) -> Cell:
    """Return a value in which the member at a path is a list; a value without that member stays as it is."""
    if not path:
        return value if value is None or isinstance(value, list) else [value]
    if isinstance(value, list):
        return [_with_list(item, path) for item in value]
    if not isinstance(value, Mapping) or path[0] not in value:
        return value
    return {**value, path[0]: _with_list(value[path[0]], path[1:])}


def _named(value: Cell, names: Sequence[str], column: str) -> Cell:
    if isinstance(value, (list, tuple)):
        return [_named(item, names, column) for item in value]
    if value is None:
        return None
    if not names:
        raise Unmapped(f"the table knows no names of classes of the column {column!r}")
    if not isinstance(value, int) or not 0 <= value < len(names):
        raise Unmapped(f"the column {column!r} is {value!r}, which is no number of its {len(names)} classes")
    return names[value]


def _matched(value: Cell, pattern: str, column: str) -> Cell:
    if isinstance(value, (list, tuple)):
        return [_matched(item, pattern, column) for item in value]
    if value is None:
        return None
    match = re.search(pattern, str(value), re.DOTALL)
    if match is None:
        raise Unmapped(f"the column {column!r} does not match the pattern {pattern!r}")
    return match[1] if match.re.groups else match[0]


def _replaced(value: Cell, values: Mapping[str, JsonValue], column: str) -> Cell:
    if isinstance(value, (list, tuple)):
        return [_replaced(item, values, column) for item in value]
    if value is None:
        return None
    if _key(value) in values:
        return values[_key(value)]
    raise Unmapped(f"the column {column!r} is {str(value)[:80]!r}, which `map` does not have: {', '.join(values)}")


def kind_of(value: object) -> str:
    """Return what a value is, in words."""
    if isinstance(value, bool):
        return "true or false"
    if value is None:
        return "null"
    for kinds, name in (
        ((int, float), "a number"),
        (str, "text"),
        ((bytes, bytearray), "bytes"),
        (Mapping, "an object"),
        (Sequence, "a list"),
    ):
        if isinstance(value, kinds):
            return name
    return type(value).__name__
