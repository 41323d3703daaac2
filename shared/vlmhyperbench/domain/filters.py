"""The filters of lists, written as `COLUMN OPERATOR VALUE`: parsed to typed conditions, never to SQL."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from vlmhyperbench.errors import InvalidInput

Operator = Literal["=", "!=", "<=", ">=", "<", ">", "~"]

MAX_FILTERS = 20
MAX_VALUES = 100
_FORM = re.compile(r"\s*([A-Za-z_][^=!<>~]{0,199}?)\s*(!=|<=|>=|=|<|>|~)\s*(.*)", re.DOTALL)
_COMMA = re.compile(r"(?<!\\),")
_CURE = (
    "Write COLUMN OPERATOR VALUE, such as state=RUNNING,QUEUED, metrics.anls>=0.8 or name~nightly; "
    "the operators are = != < <= > >= ~."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One filter: a row passes if the value of its column has the relation to one of the values."""

    column: str
    operator: Operator
    values: tuple[str, ...]
    """Of `=` and `!=` any number of values; of the others exactly one. `*` alone stands for any value."""

    @property
    def is_any(self) -> bool:
        """Whether the filter asks only if the column has a value."""
        return self.values == ("*",) and self.operator in ("=", "!=")

    @property
    def number(self) -> float:
        """The value as a finite number.

        Raises:
            InvalidInput: it is none.
        """
        value = number_of(self.values[0])
        if value is None:
            raise InvalidInput(
                f"The filter on {self.column} compares with {self.values[0][:50]!r}, which is not a number.",
                cure="Write a number, such as 0.5.",
                code="bad_filter",
            )
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The column by which a list is ordered; rows without a value come last in both directions."""

    column: str
    is_descending: bool

    @property
    def text(self) -> str:
        """The order as it is written in an address: `-created_at`."""
        return f"-{self.column}" if self.is_descending else self.column


def read_filter(text: str) -> Condition:
    r"""Parse a filter.

    Values of `=` and `!=` are separated by commas; a comma in a value is written `\,`.

    Raises:
        InvalidInput: it does not have the form `COLUMN OPERATOR VALUE`.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise InvalidInput(f"{text[:100]!r} is not a filter.", cure=_CURE, code="bad_filter")
    column, operator, value = match[1], match[2], match[3].strip()
    values = tuple(map(_value, _COMMA.split(value))) if operator in ("=", "!=") else (value,)
    if not value or "" in values:
        raise InvalidInput(f"The filter {text[:100]!r} has no value.", cure=_CURE, code="bad_filter")
    if len(values) > MAX_VALUES:
        raise InvalidInput(
            f"The filter on {column} has {len(values)} values.", cure=f"Write at most {MAX_VALUES}.", code="bad_filter"
        )
    return Condition(column=column, operator=_OPERATORS[operator], values=values)


def read_order(text: str) -> Order:
    """Parse an order: a column, with `-` before it for descending values.

    Raises:
        InvalidInput: it names no column.
    """
    column = text.strip().removeprefix("-").strip()
    if not column:
        raise InvalidInput("The order names no column.", cure="Write a column, such as -created_at.", code="bad_filter")
    return Order(column=column, is_descending=text.strip().startswith("-"))


def _value(text: str) -> str:
    return text.strip().replace("\\,", ",")


def number_of(text: str) -> float | None:
    """Return the finite number that a text is; None if it is none."""
    try:
        value = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


_OPERATORS: dict[str, Operator] = {"=": "=", "!=": "!=", "<=": "<=", ">=": ">=", "<": "<", ">": ">", "~": "~"}
