"""The columns by which lists of runs are filtered and ordered, as SQL expressions: a name never becomes SQL."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import ARRAY, ColumnElement, Double, String, Text, and_, case, cast, func, literal, not_, or_
from sqlalchemy.dialects.postgresql import JSONB

from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import RunListingRow, RunRow
from vlmhyperbench.domain.filters import Condition, number_of
from vlmhyperbench.domain.run_columns import SPEC
from vlmhyperbench.errors import InvalidInput

RUN = table_of(RunRow)
LISTING = table_of(RunListingRow)

DURATION = "duration_s"
"""The column that changes while a run is open."""

Kind = Literal["text", "number", "time", "yes or no", "list", "value"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListColumn:
    """A column of lists of runs."""

    name: str
    kind: Kind
    expression: ColumnElement[Any]
    is_required: bool = False
    """Whether every run has a value."""

    def where(self, condition: Condition) -> ColumnElement[bool]:
        """Return the SQL of a filter on this column.

        Raises:
            InvalidInput: the column is not compared in this way, or not with such a value.
        """
        if condition.is_any:
            has_value = func.cardinality(self.expression) > 0 if self.kind == "list" else self.expression.is_not(None)
            return has_value if condition.operator == "=" else not_(has_value)
        if condition.operator in ("=", "!="):
            is_equal = or_(*(self._is(value) for value in condition.values))
            # A run without the value does not have it: `!=` keeps that run.
            return is_equal if condition.operator == "=" else not_(func.coalesce(is_equal, literal(False)))
        if condition.operator == "~":
            pattern = func.concat("%", _without_wildcards(condition.values[0]), "%")
            return self.as_text.ilike(pattern, escape="\\")
        return self._beyond(condition)

    @property
    def sortable(self) -> ColumnElement[Any]:
        """The expression by which a list is ordered; of values of spec and summary only numbers have a place."""
        match self.kind:
            case "value":
                return _number(self.expression)
            case "number":
                return cast(self.expression, Double)
            case "time":
                return self.expression
            case _:
                return self.as_text

    @property
    def as_text(self) -> ColumnElement[str]:
        """The value as text."""
        match self.kind:
            case "value":
                return self.expression.op("#>>")(cast(literal("{}"), _TEXTS))
            case "list":
                return func.array_to_string(self.expression, ",")
            case _:
                return cast(self.expression, Text)

    def _is(self, value: str) -> ColumnElement[bool]:
        match self.kind:
            case "list":
                return literal(value, String).__eq__(func.any(self.expression))
            case "number":
                one = Condition(column=self.name, operator="=", values=(value,))
                return cast(self.expression, Double) == one.number
            case "time":
                return self.expression == _instant(self.name, value)
            case "yes or no":
                return self.expression.is_(_truth(self.name, value))
            case "value":
                number = number_of(value)
                same = self.as_text == value
                return same if number is None else or_(same, _number(self.expression) == number)
            case _:
                return self.as_text == value

    def _beyond(self, condition: Condition) -> ColumnElement[bool]:
        left: ColumnElement[Any]
        right: ColumnElement[Any]
        match self.kind:
            case "number":
                left, right = cast(self.expression, Double), literal(condition.number)
            case "value":
                left, right = _number(self.expression), literal(condition.number)
            case "time":
                left, right = self.expression, literal(_instant(self.name, condition.values[0]))
            case _:
                raise InvalidInput(
                    f"{self.name} is {_ARTICLE[self.kind]}, which is not compared by {condition.operator}.",
                    cure="Use = != or ~ on it.",
                    code="bad_filter",
                )
        return left.op(condition.operator, is_comparison=True)(right)


def column_of(name: str) -> ListColumn:
    """Return the column with a name; a name that is not fixed is a value of the spec or of the summary."""
    fixed = FIXED.get(name)
    if fixed is not None:
        return fixed
    if name.startswith(SPEC):
        path = name.removeprefix(SPEC).split(".")
        return ListColumn(name=name, kind="value", expression=RUN.c.spec.op("#>")(cast(path, _TEXTS)))
    return ListColumn(name=name, kind="value", expression=LISTING.c.columns.op("->")(cast(literal(name), Text)))


def duration_at(instant: datetime) -> ListColumn:
    """Return the column `duration_s` as it is at an instant, which pages of one list have in common.

    It does not change when a run goes on, ends or begins after the instant.
    """
    at = literal(instant, RUN.c.started_at.type)
    end = func.least(func.coalesce(RUN.c.finished_at, at), at)
    elapsed = case((RUN.c.started_at <= at, func.extract("epoch", end - RUN.c.started_at)))
    return ListColumn(name=DURATION, kind="number", expression=elapsed)


def all_of(conditions: list[ColumnElement[bool]]) -> ColumnElement[bool]:
    """Join conditions that must all hold."""
    return and_(literal(True), *conditions)


def contains_word(word: str) -> ColumnElement[bool]:
    """Return whether one of the texts of a run contains a word, in any case."""
    pattern = f"%{_without_wildcards(word)}%"
    return or_(*(FIXED[name].as_text.ilike(pattern, escape="\\") for name in _SEARCHED))


def _number(expression: ColumnElement[Any]) -> ColumnElement[Any]:
    return case((func.jsonb_typeof(cast(expression, JSONB)) == "number", cast(cast(expression, Text), Double)))


def _without_wildcards(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _instant(name: str, text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(
            f"The filter on {name} compares with {text[:50]!r}, which is not a time.",
            cure="Write a date or a time, such as 2026-01-31 or 2026-01-31T12:00:00Z.",
            code="bad_filter",
        ) from error
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def _truth(name: str, text: str) -> bool:
    if text.casefold() not in ("true", "false"):
        raise InvalidInput(
            f"{name} is true or false, not {text[:50]!r}.", cure="Write true or false.", code="bad_filter"
        )
    return text.casefold() == "true"


def _uuid_text(column: ColumnElement[UUID]) -> ColumnElement[str]:
    return cast(column, Text)


_TEXTS = ARRAY(Text)
_ARTICLE: dict[Kind, str] = {
    "text": "text",
    "yes or no": "true or false",
    "list": "a list",
    "number": "a number",
    "time": "a time",
    "value": "a value",
}
_SEARCHED = ("name", "target", "task", "dataset", "note", "tags")
_DURATION = func.extract("epoch", func.coalesce(RUN.c.finished_at, func.now()) - RUN.c.started_at)
_MS_OF_A_PRIORITY = 1e13
"""More milliseconds than any two runs are apart, and few enough for whole numbers of a double at each priority."""
_QUEUE_PLACE = func.round(func.extract("epoch", RUN.c.created_at) * 1000) - RUN.c.priority * _MS_OF_A_PRIORITY
"""The higher priority first, then who came first, as the scheduler looks at jobs."""
_FIXED: tuple[tuple[str, Kind, ColumnElement[Any], bool], ...] = (
    ("id", "text", _uuid_text(RUN.c.id), True),
    ("name", "text", RUN.c.name, True),
    ("state", "text", RUN.c.state, True),
    ("reason", "text", RUN.c.reason, False),
    ("experiment_id", "text", _uuid_text(RUN.c.experiment_id), False),
    ("parent_run_id", "text", _uuid_text(RUN.c.parent_run_id), False),
    ("created_by", "text", RUN.c.created_by, True),
    ("spec_digest", "text", RUN.c.spec_digest, True),
    ("priority", "number", RUN.c.priority, True),
    ("queue_place", "number", _QUEUE_PLACE, True),
    ("total", "number", RUN.c.total, False),
    ("is_paused", "yes or no", RUN.c.is_paused, True),
    ("created_at", "time", RUN.c.created_at, True),
    ("started_at", "time", RUN.c.started_at, False),
    ("finished_at", "time", RUN.c.finished_at, False),
    (DURATION, "number", _DURATION, False),
    ("target", "text", LISTING.c.target, True),
    ("model", "text", LISTING.c.model, True),
    ("backend", "text", LISTING.c.backend, True),
    ("task", "text", LISTING.c.task, True),
    ("dataset", "text", LISTING.c.dataset, True),
    ("scenario", "text", LISTING.c.scenario, True),
    ("note", "text", func.nullif(LISTING.c.note, ""), False),
    ("tags", "list", LISTING.c.tags, True),
)
FIXED = {
    name: ListColumn(name=name, kind=kind, expression=expression, is_required=is_required)
    for name, kind, expression, is_required in _FIXED
}
"""Columns that every project has."""
