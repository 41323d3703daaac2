"""`/exports`: finished runs in the format of another tool, written by the platform as jobs with progress."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Body, Path
from fastapi.responses import FileResponse

from vlmhyperbench.db import experiments, runs
from vlmhyperbench.db import exports as rows
from vlmhyperbench.db.engine import AsyncSession
from vlmhyperbench.db.views import ExportView, RunView
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound, NotReady
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.exports import MAX_EXPORTED, Export, ExportCreate
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import (
    After,
    CursorText,
    PageLimit,
    RuntimeOf,
    Session,
    read_cursor,
    write_cursor,
)
from vlmhyperbench_api.security import Principal, requires

router = APIRouter(prefix="/exports", tags=["exports"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("artifact:read")]
ExportId = Annotated[UUID, Path()]
MAX_OPEN = 20
"""Exports of a project that wait or are written at the same time."""
ExportBody = Annotated[
    ExportCreate,
    Body(
        openapi_examples={
            "run": {"value": {"format": "parquet", "runs": ["6f1c4c1e-6d0c-4f43-a0b3-6a8a1c1b2f10"]}},
            "experiment": {"value": {"format": "lm-eval", "experiment": "6f1c4c1e-6d0c-4f43-a0b3-6a8a1c1b2f10"}},
        }
    ),
]


@router.post("", status_code=202)
async def ask_for_export(body: ExportBody, principal: Reader, session: Session) -> Export:
    """Ask for an export of finished runs; follow its state, then download its file, which is kept for a day."""
    chosen = await _runs(session, principal, body)
    if await rows.count_open(session, principal.project_id) >= MAX_OPEN:
        message = f"{MAX_OPEN} exports are not made yet."
        raise Conflict(message, cure="Wait for some of them, or cancel them.", code="too_many_exports")
    ids = list(dict.fromkeys(run.id for run in chosen))
    added = await rows.add(
        session, project_id=principal.project_id, run_ids=ids, format_=body.format, created_by=principal.name
    )
    return _shown(added)


@router.get("")
async def list_exports(
    principal: Reader, session: Session, limit: PageLimit = 50, cursor: CursorText = None
) -> Page[Export]:
    """List exports, newest first."""
    after = read_cursor(cursor, After)
    page = await rows.page(session, project_id=principal.project_id, after=after.key if after else None, limit=limit)
    last = page[-1] if len(page) == limit else None
    return Page[Export](
        items=[_shown(export) for export in page],
        next=write_cursor(After(at=last.created_at, id=last.id)) if last else None,
    )


@router.get("/{export_id}")
async def get_export(export_id: ExportId, principal: Reader, session: Session) -> Export:
    """Return the state and progress of an export."""
    return _shown(await _read(session, export_id, principal))


@router.post("/{export_id}/cancel")
async def cancel_export(export_id: ExportId, principal: Reader, session: Session) -> Export:
    """Cancel an export that is not made yet; one that has ended stays as it is."""
    await _read(session, export_id, principal)
    await rows.cancel(session, export_id)
    return _shown(await _read(session, export_id, principal))


@router.get("/{export_id}/content", response_class=FileResponse)
async def get_export_content(export_id: ExportId, principal: Reader, runtime: RuntimeOf) -> FileResponse:
    """Download the file of an export; several files are an archive."""
    async with runtime.database.transaction() as session:
        export = await _read(session, export_id, principal)
    if export.storage_key is None or export.sha256 is None:
        open_ = export.state in ("QUEUED", "RUNNING")
        cure = "Wait until it is DONE." if open_ else "Ask for it again."
        raise NotReady(f"The export {export_id} has no file: it is {export.state}.", cure=cure, code="no_export_file")
    path = await runtime.storage.open(export.storage_key, export.sha256)
    return FileResponse(
        path,
        media_type="application/octet-stream",
        filename=export.name,
        headers={"ETag": f'"{export.sha256}"', "Content-Security-Policy": "sandbox"},
    )


async def _runs(session: AsyncSession, principal: Principal, body: ExportCreate) -> list[RunView]:
    if body.experiment is not None:
        experiment = await experiments.get(session, body.experiment, project_id=principal.project_id)
        if experiment is None:
            raise NotFound(f"There is no experiment {body.experiment}.", cure="List the experiments.")
        chosen = await runs.of_experiment(session, experiment.id)
    else:
        found = {run_id: await runs.get(session, run_id, project_id=principal.project_id) for run_id in body.runs}
        missing = [str(run_id) for run_id, run in found.items() if run is None]
        if missing:
            raise NotFound(f"There is no run {', '.join(missing)}.", cure="List the runs to see which there are.")
        chosen = [run for run in found.values() if run is not None]
    if len(chosen) > MAX_EXPORTED:
        raise InvalidInput(f"These are {len(chosen)} runs.", cure=f"Export at most {MAX_EXPORTED} at a time.")
    running = [str(run.id) for run in chosen if not run.state.is_terminal]
    if running:
        raise NotReady(f"The run {', '.join(running[:3])} has not ended.", cure="Wait for it.", code="not_ended")
    return list(chosen)


async def _read(session: AsyncSession, export_id: UUID, principal: Principal) -> ExportView:
    export = await rows.get(session, export_id, project_id=principal.project_id)
    if export is None:
        raise NotFound(f"There is no export {export_id}.", cure="List the exports to see which there are.")
    return export


def _shown(export: ExportView) -> Export:
    values = {name: getattr(export, name) for name in Export.model_fields if name != "runs"}
    return Export.model_validate({**values, "runs": export.run_ids})
