"""Artifacts: files that a run or an experiment produced, in storage under keys that name the claim."""

from __future__ import annotations

from typing import Literal
from uuid import UUID, uuid4

from sqlalchemy import Column, func, insert, select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import PageKey, fetch_all, fetch_one, newest_first, table_of
from vlmhyperbench.db.tables import ArtifactRow, ExperimentRow, RunRow
from vlmhyperbench.db.views import ArtifactView, ReportFileView

_ARTIFACT, _RUN, _EXPERIMENT = table_of(ArtifactRow), table_of(RunRow), table_of(ExperimentRow)

ArtifactKind = Literal["report", "summary", "manifest", "table", "log", "resources", "reuse"]


async def add(
    session: AsyncSession,
    *,
    project_id: str,
    claim_id: UUID,
    kind: ArtifactKind,
    name: str,
    media_type: str,
    storage_key: str,
    sha256: str,
    size_bytes: int,
    run_id: UUID | None = None,
    experiment_id: UUID | None = None,
) -> UUID:
    """Add an artifact that is already in storage and return its id; the caller holds the job by its claim.

    An artifact of a run names only the run, one of an experiment only the experiment. The caller appends the event
    `artifact.ready`.
    """
    new_id = uuid4()
    await session.execute(
        insert(_ARTIFACT).values(
            id=new_id,
            project_id=project_id,
            run_id=run_id,
            experiment_id=experiment_id,
            claim_id=claim_id,
            kind=kind,
            name=name,
            media_type=media_type,
            storage_key=storage_key,
            sha256=sha256,
            size_bytes=size_bytes,
        )
    )
    return new_id


async def get(session: AsyncSession, artifact_id: UUID, *, project_id: str | None = None) -> ArtifactView | None:
    """Read an artifact; None if it does not exist, or does not belong to the given project."""
    statement = select(_ARTIFACT).where(_ARTIFACT.c.id == artifact_id)
    if project_id is not None:
        statement = statement.where(_ARTIFACT.c.project_id == project_id)
    return await fetch_one(session, ArtifactView, statement)


async def of_run(session: AsyncSession, run_id: UUID) -> list[ArtifactView]:
    """Read a run's artifacts, sorted by name; of each name only the newest, which replaces those of earlier claims."""
    return await _newest(session, _ARTIFACT.c.run_id, run_id)


async def of_experiment(session: AsyncSession, experiment_id: UUID) -> list[ArtifactView]:
    """Read the artifacts of an experiment itself, as `of_run` does for a run."""
    return await _newest(session, _ARTIFACT.c.experiment_id, experiment_id)


async def page(
    session: AsyncSession, *, project_id: str, after: PageKey | None = None, limit: int = 50
) -> list[ArtifactView]:
    """Read a page of a project's artifacts, newest first; the next page begins after the key of the last row."""
    statement = select(_ARTIFACT).where(_ARTIFACT.c.project_id == project_id)
    return await fetch_all(session, ArtifactView, newest_first(statement, _ARTIFACT, after, limit))


async def page_of_reports(
    session: AsyncSession, *, project_id: str, after: PageKey | None = None, limit: int = 50
) -> list[ReportFileView]:
    """Read a page of the documents of a project's reports as `page` does, with the names of what they are about."""
    name = func.coalesce(_RUN.c.name, _EXPERIMENT.c.name).label("scope_name")
    statement = (
        select(_ARTIFACT, name)
        .outerjoin(_RUN, _RUN.c.id == _ARTIFACT.c.run_id)
        .outerjoin(_EXPERIMENT, _EXPERIMENT.c.id == _ARTIFACT.c.experiment_id)
        .where(_ARTIFACT.c.project_id == project_id, _ARTIFACT.c.kind == "report", _ARTIFACT.c.name.like("report.%"))
    )
    return await fetch_all(session, ReportFileView, newest_first(statement, _ARTIFACT, after, limit))


async def _newest(session: AsyncSession, owner: Column[UUID], owner_id: UUID) -> list[ArtifactView]:
    statement = (
        select(_ARTIFACT)
        .where(owner == owner_id)
        .ext(distinct_on(_ARTIFACT.c.name))
        .order_by(_ARTIFACT.c.name, _ARTIFACT.c.created_at.desc(), _ARTIFACT.c.id)
    )
    return await fetch_all(session, ArtifactView, statement)
