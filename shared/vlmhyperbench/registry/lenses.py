"""A lens: a named view of runs, with a question, the runs that count, constraints on them, and preferences."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from vlmhyperbench.domain.base import Refused
from vlmhyperbench.domain.filters import MAX_FILTERS, read_filter, read_order
from vlmhyperbench.domain.run_columns import is_number, is_open
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.registry.values import Slug, Strict

MAX_PREFERENCES: Final = 8
"""Preferences of a lens: the columns over which a Pareto front is drawn."""


def _is_filter(text: str) -> str:
    try:
        read_filter(text)
    except InvalidInput as error:
        raise Refused(error.message.removesuffix("."), cure=error.cure) from error
    return text


def _is_limit(text: str) -> str:
    condition = read_filter(_is_filter(text))
    if condition.operator == "~":
        raise Refused("a constraint compares with a value, not with a part of a text", cure="Use = != < <= > or >=.")
    if condition.operator in ("=", "!="):
        return text
    if not is_number(condition.column) and not is_open(condition.column):
        raise Refused(f"{condition.column} is no number", cure="Use = or != on it.")
    try:
        _ = condition.number
    except InvalidInput as error:
        raise Refused(error.message.removesuffix("."), cure=error.cure) from error
    return text


def _is_order(text: str) -> str:
    try:
        read_order(text)
    except InvalidInput as error:
        raise Refused(error.message.removesuffix("."), cure=error.cure) from error
    return text


Column = Annotated[str, Field(min_length=1, max_length=200)]
Filter = Annotated[str, Field(max_length=1000), AfterValidator(_is_filter)]
Limit = Annotated[str, Field(max_length=1000), AfterValidator(_is_limit)]


class Explanation(Strict):
    """What a reader of the view has to know."""

    why: str = ""
    """Why these columns answer the question."""
    how_to_read: str = ""


class LensFields(Strict):
    """The fields of a lens. Filters are those of lists of runs, such as `metrics.anls>=0.8`."""

    question: Annotated[str, Field(min_length=1, max_length=500)]
    """The question that the view answers, as a person would ask it."""
    task: Slug | None = None
    """Task whose runs are compared; None: the runs of all tasks."""
    where: Annotated[tuple[Filter, ...], Field(max_length=MAX_FILTERS)] = ()
    """Which runs are candidates; others are not shown."""
    constraints: Annotated[tuple[Limit, ...], Field(max_length=MAX_FILTERS)] = ()
    """What a candidate must meet; one that does not is shown with the constraint that it breaks."""
    preferences: Annotated[dict[Column, Literal["higher", "lower"]], Field(min_length=1, max_length=MAX_PREFERENCES)]
    """Column of numbers → which end is better. Candidates are compared by all at once (Pareto), never by a sum."""
    columns: Annotated[tuple[Column, ...], Field(max_length=40)] = ()
    """Columns that are shown beside those of constraints and preferences."""
    order: Annotated[str, Field(max_length=200), AfterValidator(_is_order)] = "-created_at"
    """Column by which candidates are ordered; `-` before it for descending values."""
    explain: Explanation = Explanation()
