"""`/comparisons`, `/leaderboard` and `/points`: runs against a baseline, ranked, and as points over all runs."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Annotated, TypeVar
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.requests import HTTPConnection

from vlmhyperbench.analysis.gate_policy import GatePolicy
from vlmhyperbench.analysis.pareto import Direction, non_dominated
from vlmhyperbench.db import listings
from vlmhyperbench.domain.filters import Condition, Order
from vlmhyperbench.errors import Damaged, InvalidInput, NotFound, NotReady, VlmHyperBenchError
from vlmhyperbench.registry.policies import parse_policy
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.wire.comparisons import (
    MAX_COMPARED,
    CompareRequest,
    Leaderboard,
    LeaderboardEntry,
    RunPoint,
    RunPoints,
    RunsComparison,
)
from vlmhyperbench_api import comparing
from vlmhyperbench_api.bodies import StrictRoute, check_text
from vlmhyperbench_api.compared_files import ComparedFile, open_compared
from vlmhyperbench_api.dependencies import RuntimeOf, WholeNumber
from vlmhyperbench_api.ids import resolve
from vlmhyperbench_api.listings import Filters, SearchText, query_of
from vlmhyperbench_api.replicas import ListSession
from vlmhyperbench_api.security import Principal, requires
from vlmhyperbench_sdk.suggestions import did_you_mean

router = APIRouter(tags=["comparisons"], route_class=StrictRoute)

Result = TypeVar("Result")
Reader = Annotated[Principal, requires("run:read")]

_DIRECTIONS: tuple[Direction, ...] = ("higher", "lower")
MAX_COLUMNS = 8
MAX_POINTS = 5_000
MAX_RANKED = 40
MAX_TARGETS = 1_000
_MAX_NAMED = 10
_KEPT = 32
_computing = asyncio.Semaphore(2)
"""Comparisons at the same time: each uses a core."""
_results: OrderedDict[tuple[str, ...], RunsComparison] = OrderedDict()
"""Comparisons by the content of their files: equal files give equal results."""
_ranks: OrderedDict[tuple[str, ...], tuple[dict[str, tuple[int, int]], int | None]] = OrderedDict()
"""Rank intervals by runs and the content of their files."""


@router.get("/comparisons")
async def compare_runs(
    principal: Reader,
    connection: HTTPConnection,
    runtime: RuntimeOf,
    runs: Annotated[str, Query(max_length=2000, description="Ids of runs separated by commas, the baseline first.")],
) -> RunsComparison:
    """Compare runs with a baseline: paired differences, flips, speeds, and in what the runs differ."""
    return await compare_given(connection, runtime, principal, runs)


@router.post("/comparisons")
async def compare_runs_by_gate(
    body: CompareRequest, principal: Reader, connection: HTTPConnection, runtime: RuntimeOf
) -> RunsComparison:
    """Compare runs with a baseline, and check each by the policy of a gate; nothing is stored."""
    policy = parse_policy(body.gate_yaml, "gate_yaml") if body.gate_yaml is not None else body.gate
    return await _compare(connection, runtime, principal, body.runs, policy)


@router.get("/leaderboard")
async def get_leaderboard(
    principal: Reader,
    session: ListSession,
    runtime: RuntimeOf,
    task: Annotated[str, Query(min_length=1, max_length=200)],
    metric: Annotated[str | None, Query(max_length=200, description="By default the primary metric.")] = None,
    where: Filters = None,
) -> Leaderboard:
    """Rank the targets of a task by the newest run of each, with the interval of every rank.

    Questions to pipelines are left out, and runs that may give up quality to fit (`limits.allow_lossy`).
    """
    query = query_of(principal, where, None, "-created_at")
    of_task = Condition(column="task", operator="=", values=(task,))
    ended = Condition(column="state", operator="=", values=("SUCCEEDED",))
    query = listings.Query(project_id=query.project_id, conditions=(*query.conditions, of_task, ended))
    newest = await listings.newest_of_targets(session, query, limit=MAX_TARGETS)
    if not newest:
        raise NotFound(f"No run of the task {task!r} has succeeded.", cure="Choose another task, or run it first.")
    primary = str(newest[0].listing.columns.get("metric", ""))
    known = sorted(
        {
            name.removeprefix("metrics.")
            for listed in newest
            for name in listed.listing.columns
            if name.startswith("metrics.") and f"{name}.n_scored" in listed.listing.columns
        }
    )
    chosen = metric or (primary if primary in known or not known else known[0])
    if chosen not in known:
        raise InvalidInput(f"No run of the task {task!r} has the metric {chosen!r}.", cure=did_you_mean(chosen, known))
    return await _ranked(runtime, principal, task, chosen, known, newest)


@router.get("/points")
async def list_run_points(
    principal: Reader,
    session: ListSession,
    columns: Annotated[str, Query(max_length=1000, description="Names of numeric columns, separated by commas.")],
    goals: Annotated[
        str | None,
        Query(max_length=200, description="Which end of the first columns is good, such as `higher,lower`."),
    ] = None,
    where: Filters = None,
    q: SearchText = None,
    limit: Annotated[WholeNumber, Query(ge=1, le=MAX_POINTS)] = 1000,
) -> RunPoints:
    """Return the values of up to eight columns for the newest runs that pass the filters, for plots over all runs.

    With goals, the points of the Pareto front over the first columns are marked.
    """
    check_text(columns, "The query")
    names = [name.strip() for name in columns.split(",") if name.strip()]
    if not 1 <= len(names) <= MAX_COLUMNS:
        raise InvalidInput(f"Points have one to {MAX_COLUMNS} columns.", cure="Name columns, separated by commas.")
    query = query_of(principal, where, q, "-created_at")
    directions = _directions(goals, len(names))
    rows = await listings.points(session, query, names, limit=limit + 1)
    compared = [point.values[: len(directions)] for point in rows[:limit]]
    front = await asyncio.to_thread(non_dominated, compared, directions) if directions else [None] * len(compared)
    return RunPoints(
        columns=names,
        points=[RunPoint(**asdict(row), is_best=best) for row, best in zip(rows, front, strict=False)],
        is_cut=len(rows) > limit,
    )


def _directions(goals: str | None, columns: int) -> list[Direction]:
    given = [goal.strip() for goal in (goals or "").split(",") if goal.strip()]
    found = [direction for goal in given for direction in _DIRECTIONS if direction == goal]
    if len(found) != len(given) or len(given) > columns:
        raise InvalidInput(
            "Goals are `higher` or `lower`, at most one for each column.", cure="Write them as `higher,lower`."
        )
    return found


async def compare_given(
    connection: HTTPConnection, runtime: Runtime, principal: Principal, runs: str
) -> RunsComparison:
    """Compare the runs of a query, whose ids are separated by commas."""
    given = [part.strip() for part in runs.split(",") if part.strip()]
    return await _compare(connection, runtime, principal, given, None)


async def _compare(
    connection: HTTPConnection,
    runtime: Runtime,
    principal: Principal,
    given: Sequence[str],
    policy: GatePolicy | None,
) -> RunsComparison:
    if not 2 <= len(given) <= MAX_COMPARED:
        raise InvalidInput(f"{len(given)} runs are to be compared.", cure=f"Give 2 to {MAX_COMPARED} runs.")
    ids: list[UUID] = [await resolve(connection, text, "run") for text in given]
    files = [await open_compared(runtime, run_id, project_id=principal.project_id) for run_id in ids]
    key = (*(f"{file.run.id}{file.run.state}{file.run.name}{file.sha256}" for file in files), repr(policy))
    return await _computed(_results, key, lambda: _compute(files, policy))


async def _computed(
    known: OrderedDict[tuple[str, ...], Result], key: tuple[str, ...], compute: Callable[[], Result]
) -> Result:
    """Return what is known for a key, or compute it; the results that were asked for last are kept."""
    if key not in known:
        async with _computing:
            if key not in known:  # by who was before
                known[key] = await asyncio.to_thread(compute)
    known.move_to_end(key)
    result = known[key]
    while len(known) > _KEPT:
        known.popitem(last=False)
    return result


def _compute(files: Sequence[ComparedFile], policy: GatePolicy | None) -> RunsComparison:
    baseline, *others = files
    compared = comparing.compare_files(baseline, others, policy)
    return RunsComparison(baseline=comparing.side_of(baseline), others=compared)


async def _ranked(
    runtime: Runtime,
    principal: Principal,
    task: str,
    metric: str,
    known: list[str],
    newest: Sequence[listings.ListedRun],
) -> Leaderboard:
    scored = [listed for listed in newest if f"metrics.{metric}" in listed.listing.columns]
    is_primary = {listed.listing.columns.get("metric") for listed in scored} == {metric}
    stated = {listed.listing.columns.get(f"metrics.{metric}.direction") for listed in scored}
    if is_primary:
        stated |= {listed.listing.columns.get("metric_direction") for listed in scored}
    directions = stated - {None}
    if len(directions) != 1:
        raise InvalidInput(
            f"The metric {metric} has no one direction in the runs of {task!r}.", cure="Choose another metric."
        )
    direction = Order(column=metric, is_descending=directions == {"higher"})
    by_value = sorted(scored, key=lambda listed: _value(listed, metric), reverse=direction.is_descending)[:MAX_RANKED]
    intervals, answers, note = await _intervals(runtime, principal, metric, by_value, direction)
    values = [_value(listed, metric) for listed in by_value]
    return Leaderboard(
        task=task,
        metric=metric,
        direction="higher" if direction.is_descending else "lower",
        metrics=known,
        entries=[
            LeaderboardEntry.model_validate(
                {
                    "run_id": listed.run.id,
                    "name": listed.run.name,
                    "target": listed.listing.target,
                    "dataset": listed.listing.dataset,
                    "value": values[no],
                    "low": listed.listing.columns.get(f"metrics.{metric}.low"),
                    "high": listed.listing.columns.get(f"metrics.{metric}.high"),
                    "n": listed.listing.columns.get(f"metrics.{metric}.n_scored"),
                    "rank": 1 + values.index(values[no]),
                    "rank_low": intervals.get(str(listed.run.id), (None, None))[0],
                    "rank_high": intervals.get(str(listed.run.id), (None, None))[1],
                    "latency_p50_ms": listed.listing.columns.get("latency_p50_ms"),
                    "peak_memory_bytes": listed.listing.columns.get("peak_memory_bytes"),
                }
            )
            for no, listed in enumerate(by_value)
        ],
        ranked_on=answers,
        note=" ".join([*filter(None, [note]), *_left_out(newest, scored, by_value)]),
    )


def _left_out(
    newest: Sequence[listings.ListedRun], scored: Sequence[listings.ListedRun], ranked: Sequence[listings.ListedRun]
) -> Iterator[str]:
    """Say which targets of the task are not in the table."""
    if len(scored) > len(ranked):
        yield f"Only the best {len(ranked)} of {len(scored)} targets are ranked."
    known = {listed.run.id for listed in scored}
    without = list(dict.fromkeys(listed.run.name for listed in newest if listed.run.id not in known))
    if without:
        more = f" and {len(without) - _MAX_NAMED} more" if len(without) > _MAX_NAMED else ""
        yield f"Without a value of the metric: {', '.join(without[:_MAX_NAMED])}{more}."
    if len(newest) == MAX_TARGETS:
        yield f"Only the {MAX_TARGETS} targets that ran last are considered."


async def _intervals(
    runtime: Runtime, principal: Principal, metric: str, ranked: Sequence[listings.ListedRun], order: Order
) -> tuple[dict[str, tuple[int, int]], int | None, str]:
    """Return the rank intervals by run; why there are none, or which runs have none."""
    files = []
    for listed in ranked:
        file = await _open_or_none(runtime, listed.run.id, principal)
        if file is not None:
            files.append(file)

    def rank() -> tuple[dict[str, tuple[int, int]], int | None]:
        found, ranking = comparing.rank_files(files, metric, "higher" if order.is_descending else "lower")
        return found, ranking.answers if ranking is not None else None

    if len(files) < 2:
        return {}, None, "Fewer than two runs have stored scores, so no ranks are compared."
    try:
        key = (metric, str(order.is_descending), *(f"{file.run.id}{file.sha256}" for file in files))
        intervals, answers = await _computed(_ranks, key, rank)
    except VlmHyperBenchError as error:
        return {}, None, f"There are no rank intervals: {error.message}"
    if answers is None:
        return {}, None, "The runs have no answers in common, so no ranks are compared."
    names = ", ".join(dict.fromkeys(listed.run.name for listed in ranked if str(listed.run.id) not in intervals))
    note = f"Without a rank interval, because they share no scores with the first: {names}." if names else ""
    return intervals, answers, note


async def _open_or_none(runtime: Runtime, run_id: UUID, principal: Principal) -> ComparedFile | None:
    """Open what a comparison reads of a run; None if it has no scores, or a damaged file."""
    try:
        return await open_compared(runtime, run_id, project_id=principal.project_id)
    except (Damaged, NotFound, NotReady):
        return None


def _value(listed: listings.ListedRun, metric: str) -> float:
    value = listed.listing.columns[f"metrics.{metric}"]
    return float(value) if isinstance(value, int | float) else float("nan")
