"""The rows of runs in lists: added with the run, completed with its summary, labelled by people, and queried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, and_, func, insert, literal, or_, select, text, update
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.listing_columns import (
    DURATION,
    FIXED,
    LISTING,
    RUN,
    ListColumn,
    all_of,
    column_of,
    contains_word,
    duration_at,
)
from vlmhyperbench.db.queries import fetch_all, fetch_one, page_size
from vlmhyperbench.db.views import RunListingView, RunView
from vlmhyperbench.domain.filters import Condition, Order
from vlmhyperbench.domain.run_columns import SPEC
from vlmhyperbench.domain.specs import ModelTarget, RunSpec
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.summaries.headline import target_of
from vlmhyperbench_sdk.suggestions import did_you_mean
from vlmhyperbench_sdk.types import JsonObject

NEWEST_FIRST = Order(column="created_at", is_descending=True)
_MAX_NAMES = 2000
_NOT_RANKED = ("spec.is_session", "spec.limits.allow_lossy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which runs a list has, and in which order."""

    project_id: str
    conditions: tuple[Condition, ...] = ()
    words: tuple[str, ...] = ()
    """Each is contained in the name, target, task, dataset, note or tags."""
    order: Order = NEWEST_FIRST
    at: datetime | None = None
    """Instant at which the list is ordered by duration, the same for all its pages; None: now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Position of the last row of a page."""

    value: float | str | datetime | None
    id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun:
    """A run with its row in lists."""

    run: RunView
    listing: RunListingView
    value: float | str | datetime | None
    """Value of the column by which the list is ordered."""


async def add(session: AsyncSession, run_id: UUID, *, project_id: str, spec: RunSpec) -> None:
    """Add the row of a new run."""
    target = spec.target
    await session.execute(
        insert(LISTING).values(
            run_id=run_id,
            project_id=project_id,
            target=target_of(spec),
            model=target.served_name,
            backend=target.backend if isinstance(target, ModelTarget) else target.backend_class,
            task=spec.task,
            dataset=spec.dataset.name,
            scenario=spec.scenario.name,
            columns={},
            note="",
        )
    )


async def set_columns(session: AsyncSession, run_id: UUID, columns: JsonObject) -> None:
    """Store the columns of a run's summary; the caller holds the run by its REPORT job."""
    await session.execute(update(LISTING).where(LISTING.c.run_id == run_id).values(columns=dict(columns)))


async def label(
    session: AsyncSession,
    run_id: UUID,
    *,
    add_tags: Sequence[str] = (),
    remove_tags: Sequence[str] = (),
    note: str | None = None,
    by: str,
) -> RunListingView | None:
    """Add and remove tags of a run, and replace its note; None if there is no such run.

    Tags are changed in the database itself, so that two people may tag one run at the same time.
    """
    changed = await session.execute(
        text(_LABEL),
        {"run": run_id, "added": list(add_tags), "removed": list(remove_tags), "note": note, "by": by},
    )
    return None if changed.one_or_none() is None else await of_run(session, run_id)


async def of_run(session: AsyncSession, run_id: UUID) -> RunListingView | None:
    """Read the row of one run."""
    return await fetch_one(session, RunListingView, select(LISTING).where(LISTING.c.run_id == run_id))


async def of_runs(session: AsyncSession, run_ids: Sequence[UUID]) -> dict[UUID, RunListingView]:
    """Read the rows of several runs."""
    rows = await fetch_all(session, RunListingView, select(LISTING).where(LISTING.c.run_id.in_(run_ids)))
    return {row.run_id: row for row in rows}


async def instant(session: AsyncSession) -> datetime:
    """Return the database's time, by which runs begin and end."""
    now: datetime = (await session.execute(select(func.now()))).scalar_one()
    return now


async def page(
    session: AsyncSession, query: Query, *, after: Position | None = None, limit: int = 50
) -> list[ListedRun]:
    """Read a page of the runs of a query; the next page begins after the position of the last row.

    Raises:
        InvalidInput: a filter or the order names a column that no run has, or compares it in a wrong way.
    """
    if query.order.column == DURATION and query.at is not None:
        order = duration_at(query.at)
    else:
        order = await _known(session, query.project_id, query.order.column)
    conditions = [(await _known(session, query.project_id, given.column)).where(given) for given in query.conditions]
    conditions += [contains_word(word) for word in query.words]
    statement = select(RUN.c.id, order.sortable.label("ordered_by")).select_from(
        RUN.join(LISTING, LISTING.c.run_id == RUN.c.id)
    )
    statement = statement.where(RUN.c.project_id == query.project_id, all_of(conditions))
    statement = _ordered(statement, order, query.order, after).limit(page_size(limit))
    ordered = (await session.execute(statement)).all()
    ids = [row.id for row in ordered]
    runs = {run.id: run for run in await fetch_all(session, RunView, select(RUN).where(RUN.c.id.in_(ids)))}
    listings = await of_runs(session, ids)
    return [ListedRun(run=runs[row.id], listing=listings[row.id], value=row.ordered_by) for row in ordered]


async def newest_of_targets(session: AsyncSession, query: Query, *, limit: int) -> list[ListedRun]:
    """Read the newest run of each target and dataset among those that pass the filters, the newest first.

    Questions to pipelines are left out, and runs that may give up quality to fit.

    Raises:
        InvalidInput: a filter names a column that no run has, or compares it in a wrong way.
    """
    conditions = [(await _known(session, query.project_id, given.column)).where(given) for given in query.conditions]
    conditions += [
        column_of(name).where(Condition(column=name, operator="!=", values=("true",))) for name in _NOT_RANKED
    ]
    newest = (
        select(RUN.c.id, RUN.c.created_at)
        .select_from(RUN.join(LISTING, LISTING.c.run_id == RUN.c.id))
        .where(RUN.c.project_id == query.project_id, all_of(conditions))
        .ext(distinct_on(LISTING.c.target, LISTING.c.dataset))
        .order_by(LISTING.c.target, LISTING.c.dataset, RUN.c.created_at.desc(), RUN.c.id.desc())
        .subquery()
    )
    by_age = select(newest).order_by(newest.c.created_at.desc(), newest.c.id.desc()).limit(page_size(limit))
    found = (await session.execute(by_age)).all()
    ids = [row.id for row in found]
    runs = {run.id: run for run in await fetch_all(session, RunView, select(RUN).where(RUN.c.id.in_(ids)))}
    listings = await of_runs(session, ids)
    return [ListedRun(run=runs[row.id], listing=listings[row.id], value=row.created_at) for row in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A run with its values in some columns."""

    id: UUID
    name: str
    target: str
    task: str
    state: str
    values: tuple[float | None, ...]


async def points(session: AsyncSession, query: Query, columns: Sequence[str], *, limit: int) -> list[Point]:
    """Read the values of numeric columns for the newest runs of a query that have at least one of them.

    Raises:
        InvalidInput: no run has a column, or it holds no numbers.
    """
    wanted = [await _known(session, query.project_id, name) for name in columns]
    for column in wanted:
        if column.kind not in ("number", "value"):
            message = f"{column.name} holds no numbers."
            raise InvalidInput(message, cure="Choose a column of numbers.", code="bad_filter")
    values = [column.sortable.label(f"value_{no}") for no, column in enumerate(wanted)]
    conditions = [(await _known(session, query.project_id, given.column)).where(given) for given in query.conditions]
    conditions += [contains_word(word) for word in query.words]
    statement = (
        select(RUN.c.id, RUN.c.name, LISTING.c.target, LISTING.c.task, RUN.c.state, *values)
        .select_from(RUN.join(LISTING, LISTING.c.run_id == RUN.c.id))
        .where(RUN.c.project_id == query.project_id, all_of(conditions))
        .where(or_(*(column.sortable.is_not(None) for column in wanted)))
        .order_by(RUN.c.created_at.desc(), RUN.c.id.desc())
        .limit(limit)
    )
    return [
        Point(id=row[0], name=row[1], target=row[2], task=row[3], state=row[4], values=tuple(row[5:]))
        for row in await session.execute(statement)
    ]


async def names(session: AsyncSession, project_id: str) -> dict[str, str]:
    """Return the names of all columns of a project's summaries, each with its type in JSON."""
    rows = await session.execute(text(_NAMES), {"project": project_id, "limit": _MAX_NAMES})
    return {row.name: row.kind for row in rows}


async def directions(session: AsyncSession, project_id: str) -> dict[str, str]:
    """Return which values of each metric are better, by its key; a metric of which runs state both is left out."""
    rows = await session.execute(text(_DIRECTIONS), {"project": project_id, "limit": _MAX_NAMES})
    return {row.metric: row.direction for row in rows}


async def tags(session: AsyncSession, project_id: str) -> dict[str, int]:
    """Return the tags of a project with the number of their runs, the most frequent first."""
    rows = await session.execute(text(_TAGS), {"project": project_id, "limit": _MAX_NAMES})
    return {row.tag: row.runs for row in rows}


async def tasks(session: AsyncSession, project_id: str) -> dict[str, int]:
    """Return the tasks of a project with the number of their runs, the most frequent first."""
    rows = await session.execute(text(_TASKS), {"project": project_id, "limit": _MAX_NAMES})
    return {row.task: row.runs for row in rows}


def _ordered(statement: Select[Any], column: ListColumn, order: Order, after: Position | None) -> Select[Any]:
    """Order by the column and the id; a column that every run has needs no place for missing values."""
    value = column.sortable
    if after is not None:
        statement = statement.where(_follows(column, order, after))
    by = (value.desc(), RUN.c.id.desc()) if order.is_descending else (value, RUN.c.id)
    return statement.order_by(*by) if column.is_required else statement.order_by(value.is_(None), *by)


def _follows(column: ListColumn, order: Order, after: Position) -> ColumnElement[bool]:
    value, is_later = column.sortable, RUN.c.id < after.id if order.is_descending else RUN.c.id > after.id
    if after.value is None:
        return and_(value.is_(None), is_later)
    last = literal(after.value)
    is_beyond = value < last if order.is_descending else value > last
    follows = or_(is_beyond, and_(value == last, is_later))
    return follows if column.is_required else or_(follows, value.is_(None))


async def _known(session: AsyncSession, project_id: str, name: str) -> ListColumn:
    """Return a column that some run of the project has; a project without runs has every column.

    Raises:
        InvalidInput: no run has it.
    """
    column = column_of(name)
    if name in FIXED:
        return column
    runs = select(literal(1)).select_from(RUN.join(LISTING, LISTING.c.run_id == RUN.c.id))
    runs = runs.where(RUN.c.project_id == project_id).limit(1)
    has_it = (await session.execute(runs.where(column.expression.is_not(None)))).one_or_none()
    if has_it is not None or (await session.execute(runs)).one_or_none() is None:
        return column
    known = [*FIXED, *await names(session, project_id)]
    cure = "Write the path of a value of a spec, such as spec.decoding.temperature."
    raise InvalidInput(
        f"No run has the column {name[:100]}.",
        cure=cure if name.startswith(SPEC) else did_you_mean(name, known),
        code="unknown_column",
    )


_LABEL = """
UPDATE run_listing SET
  tags = ARRAY(
    SELECT tag FROM (
      SELECT DISTINCT tag FROM unnest(tags || CAST(:added AS varchar[])) AS held (tag)
      WHERE tag <> ALL (CAST(:removed AS varchar[]))
    ) AS remaining ORDER BY tag
  ),
  note = COALESCE(CAST(:note AS text), note), labelled_by = :by, labelled_at = now()
WHERE run_id = :run RETURNING run_id
"""

_NAMES = """
SELECT name, min(jsonb_typeof(value)) AS kind
FROM run_listing CROSS JOIN LATERAL jsonb_each(columns) AS each (name, value)
WHERE project_id = :project GROUP BY name ORDER BY name LIMIT :limit
"""

_DIRECTIONS = """
SELECT metric, min(direction) AS direction FROM (
  SELECT substr(name, 9, length(name) - 18) AS metric, value #>> '{}' AS direction
  FROM run_listing CROSS JOIN LATERAL jsonb_each(columns) AS each (name, value)
  WHERE project_id = :project AND name LIKE 'metrics.%.direction'
  UNION ALL
  SELECT columns ->> 'metric', columns ->> 'metric_direction' FROM run_listing
  WHERE project_id = :project AND columns ->> 'metric_direction' IS NOT NULL
) AS stated
GROUP BY metric HAVING count(DISTINCT direction) = 1 ORDER BY metric LIMIT :limit
"""

_TAGS = """
SELECT tag, count(*) AS runs FROM run_listing CROSS JOIN LATERAL unnest(tags) AS held (tag)
WHERE project_id = :project GROUP BY tag ORDER BY runs DESC, tag LIMIT :limit
"""

_TASKS = """
SELECT task, count(*) AS runs FROM run_listing
WHERE project_id = :project AND task <> '' GROUP BY task ORDER BY runs DESC, task LIMIT :limit
"""
