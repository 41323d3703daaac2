"""`/runs/{run_id}/samples`: the samples of a run in small rows, filtered, searched, ordered, and against a baseline."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query

from vlmhyperbench.db import runs, tallies
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.tallies import Tally
from vlmhyperbench.db.views import RunView
from vlmhyperbench.domain.filters import Condition, Order, read_filter, read_order
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.storage import Storage
from vlmhyperbench.wire.results import Result
from vlmhyperbench.wire.samples import PREVIEW_CHARACTERS, SampleFacet, SamplePage, SampleRow
from vlmhyperbench_api.bodies import StrictRoute, check_text
from vlmhyperbench_api.dependencies import (
    CursorText,
    PageLimit,
    RuntimeOf,
    SampleTablesOf,
    read_cursor,
    write_cursor,
)
from vlmhyperbench_api.ids import MaybeAgainstId, RunId
from vlmhyperbench_api.listings import Filters, SearchText
from vlmhyperbench_api.replicas import ListDatabase
from vlmhyperbench_api.results import Position, results_page
from vlmhyperbench_api.sample_tables import stored_perfect
from vlmhyperbench_api.security import Principal, requires

if TYPE_CHECKING:
    from vlmhyperbench_api.sample_table import SampleTable
    from vlmhyperbench_api.sample_tables import SampleTables

router = APIRouter(prefix="/runs", tags=["results"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("run:read")]

MAX_FACET_VALUES = 200
_GROUP_CHARACTERS = 40
_MAX_WORDS = 10
_SHOWN = (
    *("id", "key", "repeat", "status", "outcome", "error_code"),
    *("value", "is_wrong", "flip", "latency_ms", "completion_tokens", "image", "images"),
)


class _Place(Position):
    """Position of the last row of a page that is ordered by a column, with its value there.

    A run that goes on has more rows before the next page; none of those that are shown comes again.
    """

    order: str
    value: int | float | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which samples are asked for."""

    conditions: tuple[Condition, ...] = ()
    words: tuple[str, ...] = ()
    order: Order | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it is all samples in the order of the run."""
        return not self.conditions and not self.words and self.order is None


@router.get("/{run_id}/samples")
async def list_samples(
    run_id: RunId,
    principal: Reader,
    database: ListDatabase,
    runtime: RuntimeOf,
    tables: SampleTablesOf,
    against: MaybeAgainstId,
    where: Filters = None,
    q: SearchText = None,
    order: Annotated[str | None, Query(max_length=200, description="A column; `-` before it for descending.")] = None,
    limit: PageLimit = 50,
    cursor: CursorText = None,
) -> SamplePage:
    """List the counted requests of a run in small rows.

    `where=outcome=model_failure`, `where=is_wrong=true`, `where=group.doc_class=receipt`, `where=latency_ms>500`,
    `q=words`; with `against=RUN` also `where=flip=broke,mended`. `columns` of the response lists the columns.
    """
    run = await run_of(database, run_id, principal)
    selection = selection_of(where, q, order)
    baseline = None if against is None else await run_of(database, against, principal)
    table = None
    if not selection.is_plain or baseline is not None or tables.has(run_id):
        table = await table_of(tables, database, run, baseline)
    if table is None:
        return await _in_order(database, runtime.storage, run, limit=limit, cursor=cursor)
    if selection.is_plain and baseline is None:
        return _in_order_of_table(table, limit=limit, cursor=cursor)
    rows = await asyncio.to_thread(select, table, selection)
    rest = _rest(table, rows, selection.order, cursor)
    return _page(table, rest, limit=limit, matching=rows.height, order=selection.order)


@router.get("/{run_id}/sample-groups")
async def list_sample_groups(
    run_id: RunId, principal: Reader, database: ListDatabase, tables: SampleTablesOf
) -> list[SampleFacet]:
    """Count the samples of a run by outcome, and by the values of each group column."""
    table = await table_of(tables, database, await run_of(database, run_id, principal))
    return [] if table is None else await asyncio.to_thread(_facets, table)


async def run_of(database: Database, run_id: UUID, principal: Principal) -> RunView:
    """Read a run of the sender's project.

    Raises:
        NotFound: there is none.
    """
    async with database.transaction() as session:
        run = await runs.get(session, run_id, project_id=principal.project_id)
    if run is None:
        raise NotFound(f"There is no run {run_id}.", cure="List the runs to see which there are.")
    return run


async def table_of(
    tables: SampleTables, database: Database, run: RunView, baseline: RunView | None = None
) -> SampleTable | None:
    """Return the samples of a run as a table, with its flips against a baseline.

    Raises:
        InvalidInput: a run has too many samples to be filtered.
    """
    table = await tables.of_run(run, database)
    if table is None:
        raise InvalidInput(
            f"The run {run.id} has too many samples to be filtered, searched or ordered here.",
            cure="List them in their order, or open its samples.parquet.",
            code="too_many_samples",
        )
    if baseline is None:
        return table
    other = await table_of(tables, database, baseline)
    return None if other is None else await asyncio.to_thread(table.against, other)


def selection_of(where: list[str] | None, words: str | None, order: str | None) -> Selection:
    """Return the selection that the parameters of a request ask for.

    Raises:
        InvalidInput: a filter cannot be read.
    """
    for text in (*(where or ()), words or "", order or ""):
        check_text(text, "The query")
    return Selection(
        conditions=tuple(read_filter(text) for text in where or ()),
        words=tuple((words or "").split()[:_MAX_WORDS]),
        order=read_order(order) if order else None,
    )


def select(table: SampleTable, selection: Selection) -> Any:
    """Return the rows of a selection, in its order."""
    return table.ordered(table.matching(selection.conditions, selection.words), selection.order)


def _in_order_of_table(table: SampleTable, *, limit: int, cursor: str | None) -> SamplePage:
    """Return a page in the order of the run from a table; `_in_order` gives and reads the same cursors.

    A table may be built, or dropped, between two pages of one list.
    """
    rest = _rest(table, table.frame, None, cursor)
    return _page(table, rest, limit=limit, matching=table.frame.height, order=None)


def _rest(table: SampleTable, rows: Any, order: Order | None, cursor: str | None) -> Any:
    """Return the rows of a selection that come after the place of a cursor."""
    if order is None:
        after = read_cursor(cursor, Position)
        return rows if after is None else table.after(rows, after.phase, after.ordinal)
    place = read_cursor(cursor, _Place)
    if place is None:
        return rows
    if place.order != order.text:
        raise InvalidInput("The cursor is of a list in another order.", cure="Begin without a cursor.")
    return table.after(rows, place.phase, place.ordinal, order, place.value)


def _page(table: SampleTable, rest: Any, *, limit: int, matching: int, order: Order | None) -> SamplePage:
    page = rest.head(limit)
    following = None
    if page.height < rest.height:
        last = page.row(-1, named=True)
        position = {"phase": last["phase"], "ordinal": last["ordinal"]}
        following = (
            Position.model_validate(position)
            if order is None
            else _Place.model_validate({**position, "order": order.text, "value": table.sorted_by(last, order)})
        )
    return SamplePage(
        items=[_row(row, table.groups) for row in page.iter_rows(named=True)],
        next=None if following is None else write_cursor(following),
        matching=matching,
        total=table.frame.height,
        columns=table.columns,
    )


def _row(row: Mapping[str, Any], groups: Sequence[str]) -> SampleRow:
    return SampleRow(
        **{name: row[name] for name in _SHOWN},
        question=_cut(row["question"], PREVIEW_CHARACTERS),
        text=_cut(row["text"], PREVIEW_CHARACTERS),
        group={name.partition(".")[2]: _cut(row[name], _GROUP_CHARACTERS) for name in groups},
    )


async def _in_order(
    database: Database, storage: Storage, run: RunView, *, limit: int, cursor: str | None
) -> SamplePage:
    """Return a page in the order of the run, from the database alone: it costs the same in a run of any length."""
    after = read_cursor(cursor, Position)
    page = await results_page(database, storage, run, after=after, limit=limit)
    async with database.transaction() as session:
        tally = (await tallies.of_runs(session, [run.id])).get(run.id, Tally())
        perfect = await stored_perfect(session, run.id)
    key, right = await asyncio.to_thread(_right_value, run, perfect)
    return SamplePage(
        items=[_row_of_result(result, key, right) for result in page.items],
        next=page.next,
        matching=None,
        total=tally.done,
        columns=[],
    )


def _right_value(run: RunView, stored: float | None) -> tuple[tuple[str, str] | None, float | None]:
    from vlmhyperbench_api.sample_table import right_value_of  # imports polars on first use

    return right_value_of(run, stored)


def _row_of_result(result: Result, key: tuple[str, str] | None, perfect: float | None) -> SampleRow:
    """Return the row of a result; `key` names the primary metric, of which a right answer has the value `perfect`."""
    values = [
        measure.value
        for measure in result.measures
        if measure.field is None and key is not None and (measure.metric, measure.profile) == key
    ]
    value = values[0] if values else None
    return SampleRow(
        id=f"{result.phase}.{result.ordinal}",
        key=result.key,
        repeat=result.repeat,
        question=_cut(result.question, PREVIEW_CHARACTERS),
        text=_cut(result.text, PREVIEW_CHARACTERS),
        group={name: _cut(str(value), _GROUP_CHARACTERS) for name, value in result.group.items() if value is not None},
        image=result.images[0] if result.images else None,
        images=len(result.images),
        status=result.status,
        outcome=result.outcome,
        error_code=result.error_code,
        value=value,
        is_wrong=None if value is None or perfect is None else value != perfect,
        flip=None,
        latency_ms=result.latency_ms,
        completion_tokens=result.completion_tokens,
    )


def _facets(table: SampleTable) -> list[SampleFacet]:
    facets = []
    for column in ("outcome", "error_code", *table.groups):
        counts = table.frame[column].drop_nulls().value_counts(sort=True)
        values = dict(counts.head(MAX_FACET_VALUES).iter_rows())
        if values:
            facets.append(SampleFacet(column=column, values=values, is_cut=counts.height > MAX_FACET_VALUES))
    return facets


def _cut(text: str | None, characters: int) -> str | None:
    return text if text is None or len(text) <= characters else f"{text[: characters - 1]}…"
