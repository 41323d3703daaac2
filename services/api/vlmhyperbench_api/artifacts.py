"""`/artifacts`: files that runs and experiments produced, and their content."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import FileResponse

from vlmhyperbench.db import artifacts as rows
from vlmhyperbench.db.engine import AsyncSession
from vlmhyperbench.db.views import ArtifactView
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.wire.artifacts import Artifact
from vlmhyperbench.wire.base import Page
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
from vlmhyperbench_api.ids import ArtifactId, MaybeExperimentId, MaybeRunId
from vlmhyperbench_api.presenting import artifact_of
from vlmhyperbench_api.reading import read_experiment, read_run
from vlmhyperbench_api.security import Principal, requires

router = APIRouter(prefix="/artifacts", tags=["artifacts"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("artifact:read")]

REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
)
"""Content security policy of reports: a report opened from the API has its own origin and loads nothing."""
REPORT_FILES = frozenset({"report", "summary", "manifest", "table", "resources", "reuse", "log"})
"""Kinds of artifacts that belong to the report of a run or an experiment."""


@router.get("")
async def list_artifacts(
    principal: Reader,
    session: Session,
    run_id: MaybeRunId,
    experiment_id: MaybeExperimentId,
    limit: PageLimit = 50,
    cursor: CursorText = None,
) -> Page[Artifact]:
    """List the files of a run, an experiment or the whole project, newest first."""
    after = read_cursor(cursor, After)
    if run_id is not None and experiment_id is not None:
        raise InvalidInput("Ask for a run or for an experiment, not for both.", cure="Leave one of the two out.")
    if run_id is not None:
        await read_run(session, run_id, project_id=principal.project_id)
        return _whole(await rows.of_run(session, run_id))
    if experiment_id is not None:
        await read_experiment(session, experiment_id, project_id=principal.project_id)
        return _whole(await rows.of_experiment(session, experiment_id))
    page = await rows.page(session, project_id=principal.project_id, after=after.key if after else None, limit=limit)
    last = page[-1] if len(page) == limit else None
    return Page[Artifact](
        items=[artifact_of(artifact) for artifact in page],
        next=write_cursor(After(at=last.created_at, id=last.id)) if last else None,
    )


@router.get("/{artifact_id}")
async def get_artifact(artifact_id: ArtifactId, principal: Reader, session: Session) -> Artifact:
    """Describe one file."""
    return artifact_of(await _read(session, artifact_id, principal))


@router.get("/{artifact_id}/content", response_class=FileResponse)
async def get_artifact_content(artifact_id: ArtifactId, principal: Reader, runtime: RuntimeOf) -> FileResponse:
    """Download one file."""
    async with runtime.database.transaction() as session:
        artifact = await _read(session, artifact_id, principal)
    path = await runtime.storage.open(artifact.storage_key, artifact.sha256)
    return FileResponse(
        path,
        media_type=artifact.media_type,
        filename=artifact.name,
        headers={"ETag": f'"{artifact.sha256}"', "Content-Security-Policy": REPORT_POLICY},
    )


async def _read(session: AsyncSession, artifact_id: UUID, principal: Principal) -> ArtifactView:
    artifact = await rows.get(session, artifact_id, project_id=principal.project_id)
    if artifact is None:
        raise NotFound(f"There is no artifact {artifact_id}.", cure="List the artifacts to see which there are.")
    return artifact


def _whole(artifacts: list[ArtifactView]) -> Page[Artifact]:
    return Page[Artifact](items=[artifact_of(artifact) for artifact in artifacts])
