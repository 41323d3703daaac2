"""`/runs`: submit, list, read, cancel, pause, resume and retune."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Header

from vlmhyperbench.db import artifacts, tallies, waits
from vlmhyperbench.db import runs as rows
from vlmhyperbench.db.tallies import Tally
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.wire.answers import RunImport
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.runs import Run, RunCreate, RunDetail, RunRerun, RunRescore, RunRetune
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import (
    After,
    AnswerFilesOf,
    CursorText,
    PageLimit,
    RegistriesOf,
    RuntimeOf,
    any_case,
    read_cursor,
    write_cursor,
)
from vlmhyperbench_api.ids import MaybeExperimentId, RunId
from vlmhyperbench_api.presenting import run_of
from vlmhyperbench_api.reading import check_retune, read_run
from vlmhyperbench_api.replicas import ListSession
from vlmhyperbench_api.security import Principal, requires
from vlmhyperbench_api.submission import (
    ChildSubmission,
    Submission,
    submit_import,
    submit_rerun,
    submit_rescoring,
    submit_run,
)
from vlmhyperbench_api.summaries import with_summary

router = APIRouter(prefix="/runs", tags=["runs"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("run:read")]
Writer = Annotated[Principal, requires("run:write")]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="The same key with the same body answers the same run; with another body 409.",
    ),
]


@router.post("", status_code=201)
async def create_run(
    body: RunCreate, principal: Writer, runtime: RuntimeOf, registries: RegistriesOf, key: IdempotencyKey = None
) -> RunDetail:
    """Submit a run."""
    catalogue = await registries.catalogue(principal.project_id)
    return await submit_run(Submission(body=body, principal=principal, key=key, catalogue=catalogue, runtime=runtime))


@router.post("/{run_id}/rescore", status_code=201)
async def rescore_run(
    run_id: RunId,
    body: RunRescore,
    principal: Writer,
    runtime: RuntimeOf,
    registries: RegistriesOf,
    key: IdempotencyKey = None,
) -> RunDetail:
    """Re-score a finished run: a new run evaluates its stored answers and sends no requests to a model."""
    catalogue = await registries.catalogue(principal.project_id)
    return await submit_rescoring(
        ChildSubmission(body=body, principal=principal, key=key, catalogue=catalogue, runtime=runtime, parent_id=run_id)
    )


@router.post("/{run_id}/rerun", status_code=201)
async def rerun_run(
    run_id: RunId,
    body: RunRerun,
    principal: Writer,
    runtime: RuntimeOf,
    registries: RegistriesOf,
    key: IdempotencyKey = None,
) -> RunDetail:
    """Repeat a run in a new run, which reuses rows of the old one that are ok and belong to the same requests."""
    catalogue = await registries.catalogue(principal.project_id)
    return await submit_rerun(
        ChildSubmission(body=body, principal=principal, key=key, catalogue=catalogue, runtime=runtime, parent_id=run_id)
    )


@router.post("/import", status_code=201)
async def import_run(
    body: RunImport,
    principal: Writer,
    runtime: RuntimeOf,
    registries: RegistriesOf,
    answer_files: AnswerFilesOf,
    key: IdempotencyKey = None,
) -> RunDetail:
    """Submit a run that evaluates the answers of an uploaded file, produced by another tool."""
    catalogue = await registries.catalogue(principal.project_id)
    return await submit_import(
        Submission(body=body, principal=principal, key=key, catalogue=catalogue, runtime=runtime), answer_files
    )


@router.get("")
async def list_runs(
    principal: Reader,
    session: ListSession,
    runtime: RuntimeOf,
    experiment_id: MaybeExperimentId,
    state: Annotated[RunState | None, any_case(*RunState)] = None,
    kind: Literal["run", "session"] | None = None,
    limit: PageLimit = 50,
    cursor: CursorText = None,
) -> Page[Run]:
    """List runs, newest first; sessions, which are questions to pipelines, are among them unless `kind` says `run`."""
    after = read_cursor(cursor, After)
    page = await rows.page(
        session,
        project_id=principal.project_id,
        after=after.key if after else None,
        limit=limit,
        state=state,
        experiment_id=experiment_id,
        is_session=None if kind is None else kind == "session",
    )
    counts = await tallies.of_runs(session, [run.id for run in page])
    waiting = await waits.of_runs(session, page, runtime.settings)
    last = page[-1] if len(page) == limit else None
    return Page[Run](
        items=[run_of(run, counts.get(run.id, Tally()), waiting.get(run.id)) for run in page],
        next=write_cursor(After(at=last.created_at, id=last.id)) if last else None,
    )


@router.get("/{run_id}")
async def get_run(run_id: RunId, principal: Reader, runtime: RuntimeOf) -> RunDetail:
    """Return one run with its spec, phases, jobs, current progress, and quality and performance of its summary."""
    progress = await runtime.bus.progress(run_id)
    async with runtime.database.transaction() as session:
        run = await read_run(
            session,
            run_id,
            project_id=principal.project_id,
            progress=progress,
            settings=runtime.settings,
        )
        files = await artifacts.of_run(session, run.id)
    # The connection is free again: a slow storage must not hold one for each client that polls.
    return await with_summary(runtime.storage, run, files)


@router.post("/{run_id}/cancel")
async def cancel_run(run_id: RunId, principal: Writer, runtime: RuntimeOf) -> RunDetail:
    """Request the cancellation of a run; its stored rows are kept."""
    async with runtime.database.transaction() as session:
        await read_run(session, run_id, project_id=principal.project_id)
        await rows.request_cancel(session, run_id)
        run = await read_run(session, run_id, project_id=principal.project_id)
    return await _publish(runtime, run)


@router.post("/{run_id}/pause")
async def pause_run(run_id: RunId, principal: Writer, runtime: RuntimeOf) -> RunDetail:
    """Pause a run: no more of its jobs are assigned, and running jobs drain."""
    return await _set_paused(run_id, principal, runtime, is_paused=True)


@router.post("/{run_id}/resume")
async def resume_run(run_id: RunId, principal: Writer, runtime: RuntimeOf) -> RunDetail:
    """Resume a paused run."""
    return await _set_paused(run_id, principal, runtime, is_paused=False)


@router.post("/{run_id}/retune")
async def retune_run(run_id: RunId, body: RunRetune, principal: Writer, runtime: RuntimeOf) -> RunDetail:
    """Change how many requests a run keeps in flight while it runs; its speeds are then marked `retuned`.

    Raises:
        NotFound: there is no such run.
        Conflict: its scenario is timed, or it sends no more requests.
    """
    async with runtime.database.transaction() as session:
        await check_retune(session, run_id, project_id=principal.project_id)
        await rows.retune(session, run_id, in_flight=body.in_flight, by=principal.name)
        run = await read_run(session, run_id, project_id=principal.project_id)
    return await _publish(runtime, run)


async def _set_paused(run_id: UUID, principal: Principal, runtime: RuntimeOf, *, is_paused: bool) -> RunDetail:
    async with runtime.database.transaction() as session:
        await read_run(session, run_id, project_id=principal.project_id)
        await rows.set_paused(session, run_id, is_paused=is_paused)
        run = await read_run(session, run_id, project_id=principal.project_id)
    return await _publish(runtime, run)


async def _publish(runtime: RuntimeOf, run: RunDetail) -> RunDetail:
    """After the commit, wake the scheduler and publish that there are new events."""
    await runtime.bus.push_wake()
    await runtime.bus.publish(run.id, run.event_seq)
    return run
