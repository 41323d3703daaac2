"""`/reports`: the newest report of a run or experiment, with its headline and its files in all requested formats."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter
from pydantic import JsonValue

from vlmhyperbench.db import artifacts, experiments, runs
from vlmhyperbench.db.engine import AsyncSession
from vlmhyperbench.db.views import ArtifactView
from vlmhyperbench.errors import NotFound, NotReady
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.wire.artifacts import Report, ReportFile
from vlmhyperbench.wire.base import Page
from vlmhyperbench_api.artifacts import REPORT_FILES
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
from vlmhyperbench_api.ids import ScopeId
from vlmhyperbench_api.presenting import artifact_of, json_of
from vlmhyperbench_api.replicas import ListSession
from vlmhyperbench_api.security import Principal, requires
from vlmhyperbench_sdk.types import JsonObject

router = APIRouter(prefix="/reports", tags=["reports"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("artifact:read")]


@router.get("")
async def list_reports(
    principal: Reader, session: ListSession, limit: PageLimit = 50, cursor: CursorText = None
) -> Page[ReportFile]:
    """List the documents of all reports, newest first."""
    after = read_cursor(cursor, After)
    page = await artifacts.page_of_reports(
        session, project_id=principal.project_id, after=after.key if after else None, limit=limit
    )
    last = page[-1] if len(page) == limit else None
    return Page[ReportFile](
        items=[ReportFile.model_validate(file, from_attributes=True) for file in page],
        next=write_cursor(After(at=last.created_at, id=last.id)) if last else None,
    )


@router.get("/{scope_id}")
async def get_report(scope_id: ScopeId, principal: Reader, session: Session, runtime: RuntimeOf) -> Report:
    """Return the newest report of a run or experiment."""
    scope, has_ended, files, stored = await _files(session, scope_id, principal)
    shown = [file for file in files if file.kind in REPORT_FILES]
    if not any(file.kind == "report" for file in shown):
        if has_ended:
            raise NotFound(f"The {scope} {scope_id} ended without a report.", cure="Look at why it ended.")
        raise NotReady(f"The {scope} {scope_id} has no report yet.", cure="Wait until it has ended.", code="no_report")
    headline = _row_of(stored) if stored is not None else None
    document = next((file for file in shown if file.name == "report.json"), None)
    if headline is None and document is not None:
        headline = await _headline(runtime, document)
    return Report(scope=scope, id=scope_id, headline=headline, files=[artifact_of(file) for file in shown])


async def _files(
    session: AsyncSession, scope_id: UUID, principal: Principal
) -> tuple[Literal["run", "experiment"], bool, list[ArtifactView], JsonObject | None]:
    run = await runs.get(session, scope_id, project_id=principal.project_id)
    if run is not None:
        return "run", run.state.is_terminal, await artifacts.of_run(session, scope_id), run.headline
    experiment = await experiments.get(session, scope_id, project_id=principal.project_id)
    if experiment is not None:
        return "experiment", experiment.state.is_terminal, await artifacts.of_experiment(session, scope_id), None
    raise NotFound(f"There is no run or experiment {scope_id}.", cure="List the runs to see which there are.")


def _row_of(stored: JsonObject) -> JsonValue:
    """Return a run's headline in the form of `report.json`: metrics by their names."""
    row = json_of({name: value for name, value in stored.items() if name != "scores"})
    scores = json_of(stored).get("scores")
    metrics = [score for score in scores if isinstance(score, dict)] if isinstance(scores, list) else []
    row["metrics"] = {str(score["metric"]): {k: v for k, v in score.items() if k != "metric"} for score in metrics}
    return {"rows": [row]}


async def _headline(runtime: Runtime, document: ArtifactView) -> JsonValue | None:
    path = await runtime.storage.open(document.storage_key, document.sha256)
    report: JsonValue = json.loads(await asyncio.to_thread(path.read_bytes))
    return report.get("headline") if isinstance(report, dict) else None
