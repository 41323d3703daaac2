"""`/runs/rows`, `/runs/columns` and `/runs/{run_id}/labels`: runs as a query, in rows of at most a kilobyte."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, BaseModel, ConfigDict

from vlmhyperbench.db import listings, tallies
from vlmhyperbench.db.listing_columns import DURATION, FIXED
from vlmhyperbench.db.listings import ListedRun, Position
from vlmhyperbench.db.tallies import Tally
from vlmhyperbench.db.views import RunListingView
from vlmhyperbench.domain.filters import MAX_FILTERS, Condition, Order, read_filter, read_order
from vlmhyperbench.domain.run_columns import METRICS, direction_of, metric_of
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.listings import MAX_TAGS, Column, Columns, LabelChange, Labels, ListedScore, RunRow
from vlmhyperbench_api.bodies import StrictRoute, check_text
from vlmhyperbench_api.dependencies import CursorText, PageLimit, Session, read_cursor, write_cursor
from vlmhyperbench_api.ids import RunId
from vlmhyperbench_api.reading import read_run
from vlmhyperbench_api.replicas import ListSession
from vlmhyperbench_api.security import Principal, requires

router = APIRouter(prefix="/runs", tags=["runs"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("run:read")]
Writer = Annotated[Principal, requires("run:write")]
Filters = Annotated[
    list[str] | None,
    Query(
        alias="where",
        max_length=MAX_FILTERS,
        description="Filters, all of which hold: COLUMN OPERATOR VALUE, such as `state=RUNNING,QUEUED`, "
        "`metrics.anls>=0.8`, `spec.decoding.temperature=0`, `tags=nightly`, `note~slow` or `latency_p99_ms=*`. "
        "Commas separate values; a comma in a value is written `\\,`.",
        examples=[["state=SUCCEEDED", "metrics.anls>=0.8"]],
    ),
]
SearchText = Annotated[
    str | None,
    Query(alias="q", max_length=200, description="Words in the name, target, task, dataset, note or tags."),
]
OrderText = Annotated[
    str, Query(max_length=200, description="Column by which the list is ordered; `-` before it for descending.")
]

_MAX_WORDS = 10
_OF_SUMMARY = (
    "latency_p50_ms",
    "latency_p99_ms",
    "ttft_p50_ms",
    "output_tokens_per_s",
    "validity",
    "peak_memory_bytes",
    "cost_total",
    "cost_currency",
)
"""Values of a row that have the names of their columns."""
_REASON_CHARACTERS = 120


class _Last(BaseModel):
    """Position of the last row of a page, with the order in which it is one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    order: str
    value: float | str | None
    id: UUID
    at: AwareDatetime | None = None
    """Instant at which a list is ordered by duration."""


@router.get("/rows")
async def list_run_rows(
    principal: Reader,
    session: ListSession,
    where: Filters = None,
    q: SearchText = None,
    order: OrderText = "-created_at",
    limit: PageLimit = 50,
    cursor: CursorText = None,
) -> Page[RunRow]:
    """List runs that pass all filters, in small rows.

    Columns are those of `/runs/columns`, and every value of a spec as `spec.<path>`.
    """
    query = query_of(principal, where, q, order)
    before = read_cursor(cursor, _Last)
    if query.order.column == DURATION:
        query = replace(query, at=before.at if before else await listings.instant(session))
    found = await listings.page(session, query, after=_after(before, query.order), limit=limit + 1)
    page = found[:limit]
    counts = await tallies.of_runs(session, [listed.run.id for listed in page])
    last = page[-1] if len(found) > limit else None
    return Page[RunRow](
        items=[run_row_of(listed, counts.get(listed.run.id, Tally())) for listed in page],
        next=write_cursor(_Last(order=query.order.text, value=_text_of(last), id=last.run.id, at=query.at))
        if last
        else None,
    )


@router.get("/columns")
async def list_run_columns(principal: Reader, session: ListSession) -> Columns:
    """List the columns by which this project's runs can be filtered and ordered, and the tags and tasks in use."""
    fixed = [
        Column(name=name, kind=column.kind, is_number=column.kind == "number", direction=direction_of(name))
        for name, column in FIXED.items()
    ]
    own = await listings.names(session, principal.project_id)
    stated = await listings.directions(session, principal.project_id)
    others = [
        Column.model_validate(
            {"name": name, "kind": "value", "is_number": kind == "number", "direction": _direction(name, kind, stated)}
        )
        for name, kind in own.items()
    ]
    return Columns(
        columns=fixed + others,
        tags=await listings.tags(session, principal.project_id),
        tasks=await listings.tasks(session, principal.project_id),
    )


@router.get("/{run_id}/labels")
async def get_labels(run_id: RunId, principal: Reader, session: Session) -> Labels:
    """Return tags and note of a run."""
    await read_run(session, run_id, project_id=principal.project_id)
    return _labels_of(await listings.of_run(session, run_id), run_id)


@router.patch("/{run_id}/labels")
async def change_labels(run_id: RunId, body: LabelChange, principal: Writer, session: Session) -> Labels:
    """Add and remove tags of a run, or replace its note; two people may tag one run at the same time."""
    await read_run(session, run_id, project_id=principal.project_id)
    changed = await listings.label(
        session,
        run_id,
        add_tags=body.add_tags,
        remove_tags=body.remove_tags,
        note=body.note,
        by=principal.name,
    )
    if changed is not None and len(changed.tags) > MAX_TAGS:
        raise InvalidInput(f"A run has at most {MAX_TAGS} tags.", cure="Remove some of its tags.", code="too_many_tags")
    return _labels_of(changed, run_id)


def query_of(principal: Principal, where: list[str] | None, words: str | None, order: str) -> listings.Query:
    """Return the query that the parameters of a list ask for.

    Raises:
        InvalidInput: a filter cannot be read.
    """
    for text in (*(where or ()), words or "", order):
        check_text(text, "The query")
    return listings.Query(
        project_id=principal.project_id,
        conditions=tuple(map(_condition, where or ())),
        words=tuple((words or "").split()[:_MAX_WORDS]),
        order=read_order(order),
    )


def run_row_of(listed: ListedRun, tally: Tally) -> RunRow:
    """Convert a run with its row in lists."""
    run, listing = listed.run, listed.listing
    columns = listing.columns
    return RunRow.model_validate(
        {
            **{name: columns.get(name) for name in _OF_SUMMARY},
            "id": run.id,
            "experiment_id": run.experiment_id,
            "name": run.name,
            "state": run.state,
            "reason": run.reason[:_REASON_CHARACTERS] if run.reason else None,
            "target": listing.target,
            "backend": listing.backend,
            "task": listing.task,
            "dataset": listing.dataset,
            "scenario": listing.scenario,
            "is_paused": run.is_paused,
            "is_cancelling": run.cancel_requested_at is not None and not run.state.is_terminal,
            "priority": run.priority,
            "total": run.total,
            "done": tally.done,
            "failed": tally.failed,
            "score": _score_of(listing),
            "tags": list(listing.tags),
            "has_note": bool(listing.note),
            "created_at": run.created_at,
            "started_at": run.started_at,
            "finished_at": run.finished_at,
        }
    )


def _score_of(listing: RunListingView) -> ListedScore | None:
    columns = listing.columns
    metric = columns.get("metric")
    if metric is None:
        return None
    return ListedScore.model_validate(
        {
            "metric": metric,
            "value": columns.get(f"metrics.{metric}"),
            "low": columns.get(f"metrics.{metric}.low"),
            "high": columns.get(f"metrics.{metric}.high"),
            "n": columns.get(f"metrics.{metric}.n_scored"),
            "direction": columns.get("metric_direction"),
        }
    )


def _direction(column: str, kind: str, stated: Mapping[str, str]) -> str | None:
    """Return which values of a column are better: of a metric and the ends of its interval as its runs state it."""
    if kind != "number":
        return None
    key = metric_of(column)
    is_value = key is not None and column.removeprefix(f"{METRICS}{key}") in ("", ".low", ".high")
    return stated.get(key) if key is not None and is_value else direction_of(column)


def _labels_of(listing: RunListingView | None, run_id: UUID) -> Labels:
    if listing is None:
        raise NotFound(f"There is no run {run_id}.", cure="List the runs to see which there are.")
    return Labels.model_validate({**{name: getattr(listing, name) for name in Labels.model_fields}, "run_id": run_id})


def _condition(text: str) -> Condition:
    condition = read_filter(text)
    if condition.column == "state":  # states are written in capitals, and typed in either case
        return Condition(
            column="state", operator=condition.operator, values=tuple(value.upper() for value in condition.values)
        )
    return condition


def _after(last: _Last | None, order: Order) -> Position | None:
    if last is None:
        return None
    fixed = FIXED.get(order.column)
    is_time = fixed is not None and fixed.kind == "time"
    if last.order != order.text or (isinstance(last.value, str) and fixed is None):
        raise InvalidInput("The cursor is of a list in another order.", cure="Begin without a cursor.")
    try:
        value = datetime.fromisoformat(str(last.value)) if is_time and last.value is not None else last.value
    except ValueError as error:
        raise InvalidInput("The cursor is not one that this list gave.", cure="Begin without a cursor.") from error
    return Position(value=value, id=last.id)


def _text_of(last: ListedRun) -> float | str | None:
    return last.value.isoformat() if isinstance(last.value, datetime) else last.value
