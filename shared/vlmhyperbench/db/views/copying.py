"""Copy a row into a view: columns by name, states as enums, lists as tuples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, Protocol, TypeVar

from sqlalchemy import Row


class View(Protocol):
    """A frozen copy of a row. `ENUMS` maps columns to the enums of their values."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]]


V = TypeVar("V", bound=View)


def view_of(kind: type[V], row: Row[Any]) -> V:
    """Copy a result row whose columns have the view's names."""
    columns = row._mapping  # noqa: SLF001 - SQLAlchemy's public way to a column whose name a tuple has too (`count`)
    values: dict[str, object] = {}
    for name in _names(kind):
        value = columns[name]
        values[name] = tuple(value) if isinstance(value, list) else value
    for name, enum in kind.ENUMS.items():
        values[name] = enum(str(values[name]))
    return kind(**values)


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))
