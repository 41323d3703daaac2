"""`/pipelines/sessions`: ask a pipeline one question, list and read sessions, ask one of their stages again."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import Field

from vlmhyperbench.db import runs as rows
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.exchange.session_archive import name_of, pack_session
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.runs import RunDetail
from vlmhyperbench.wire.sessions import Session, SessionCreate, SessionDetail, SessionRerun
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
from vlmhyperbench_api.ids import RunId
from vlmhyperbench_api.replicas import ListSession
from vlmhyperbench_api.runs import IdempotencyKey
from vlmhyperbench_api.security import Principal, requires
from vlmhyperbench_api.session_steps import read_chain, read_session, session_of
from vlmhyperbench_api.submission import ChildSubmission, Submission, submit_session, submit_session_rerun

router = APIRouter(prefix="/pipelines/sessions", tags=["pipelines"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("run:read")]
Known = Annotated[
    tuple[Annotated[int, Field(ge=0, lt=1024)], ...],
    Query(max_length=1024, description="Positions of steps that are left out, since the client has them already."),
]
Writer = Annotated[Principal, requires("run:write")]


@router.post("", status_code=201)
async def ask_pipeline(
    body: SessionCreate,
    principal: Writer,
    runtime: RuntimeOf,
    registries: RegistriesOf,
    answer_files: AnswerFilesOf,
    key: IdempotencyKey = None,
) -> RunDetail:
    """Ask a pipeline one question: a run of one sample, which has no metrics and is on no leaderboard."""
    catalogue = await registries.catalogue(principal.project_id)
    return await submit_session(
        Submission(body=body, principal=principal, key=key, catalogue=catalogue, runtime=runtime), answer_files
    )


@router.post("/{run_id}/rerun", status_code=201)
async def ask_stage_again(
    run_id: RunId,
    body: SessionRerun,
    principal: Writer,
    runtime: RuntimeOf,
    registries: RegistriesOf,
    key: IdempotencyKey = None,
) -> RunDetail:
    """Ask the models of one stage again, in a new session that reuses the answers of the stages before it."""
    catalogue = await registries.catalogue(principal.project_id)
    return await submit_session_rerun(
        ChildSubmission(body=body, principal=principal, key=key, catalogue=catalogue, runtime=runtime, parent_id=run_id)
    )


@router.get("")
async def list_sessions(
    principal: Reader,
    session: ListSession,
    limit: PageLimit = 50,
    cursor: CursorText = None,
    pipeline: Annotated[str | None, Query(max_length=200)] = None,
    state: Annotated[RunState | None, any_case(*RunState)] = None,
) -> Page[Session]:
    """List sessions, newest first: of all pipelines or one, in every state or one."""
    after = read_cursor(cursor, After)
    key = after.key if after else None
    page = await rows.page(
        session,
        project_id=principal.project_id,
        after=key,
        limit=limit,
        state=state,
        is_session=True,
        pipeline=pipeline,
    )
    last = page[-1] if len(page) == limit else None
    return Page[Session](
        items=[session_of(run) for run in page],
        next=write_cursor(After(at=last.created_at, id=last.id)) if last else None,
    )


@router.get("/{run_id}")
async def get_session(run_id: RunId, principal: Reader, runtime: RuntimeOf, without: Known = ()) -> SessionDetail:
    """Return a session with what each step answered so far."""
    return await read_session(runtime, run_id, project_id=principal.project_id, without=without)


@router.get(
    "/{run_id}/export",
    response_class=Response,
    responses={200: {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}},
)
async def export_session(run_id: RunId, principal: Reader, runtime: RuntimeOf) -> Response:
    """Download an ended session with those that it was made from, as a zip archive of one folder, of at most 64 MiB."""
    chain = await read_chain(runtime, run_id, project_id=principal.project_id)
    packed = await asyncio.to_thread(pack_session, chain)
    return Response(
        packed,
        media_type="application/zip",
        headers={
            "Content-Disposition": f'attachment; filename="{name_of(chain[-1][0])}.zip"',
            "Content-Security-Policy": "sandbox",
        },
    )
