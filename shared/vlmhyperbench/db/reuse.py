"""What a run reuses from other runs: whole phases or single rows. A reference always names the measured row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import ClassVar
from uuid import UUID

from sqlalchemy import insert, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db import tiers
from vlmhyperbench.db.given_rows import with_given
from vlmhyperbench.db.queries import fetch_all, fetch_one, table_of
from vlmhyperbench.db.tables import ReusedFactRow, ReusedPhaseRow
from vlmhyperbench.db.views import ReusedFactView, ReusedPhaseView, view_of
from vlmhyperbench.domain.states import FactStatus
from vlmhyperbench_sdk.load import PhaseKind
from vlmhyperbench_sdk.types import JsonObject

_PHASE = table_of(ReusedPhaseRow)
_FACT = table_of(ReusedFactRow)


async def add_phase(session: AsyncSession, run_id: UUID, phase: int, *, source_run_id: UUID, source_phase: int) -> None:
    """Reuse a whole closed phase. If it is reused itself, the run that measured it becomes the source."""
    measured = await _phase(session, source_run_id, source_phase)
    if measured is None:
        counted = await tiers.counts_of_phase(session, source_run_id, source_phase)
    else:
        counted = (measured.rows, measured.failed)
        source_run_id, source_phase = measured.source_run_id, measured.source_phase
    await session.execute(
        insert(_PHASE).values(
            run_id=run_id,
            phase=phase,
            source_run_id=source_run_id,
            source_phase=source_phase,
            rows=counted[0],
            failed=counted[1],
        )
    )


async def add_facts(session: AsyncSession, reused: Sequence[ReusedFactView]) -> None:
    """Reuse single rows; each source is the run that measured the row."""
    if reused:
        await session.execute(insert(_FACT), [asdict(row) for row in reused])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReusableView:
    """A counting row of a run, measured or reused, with the location at which it was measured."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {"status": FactStatus}

    source_run_id: UUID
    source_phase: int
    source_ordinal: int
    ordinal: int
    """Ordinal in the run that was read, which may itself reuse the row."""
    repeat: int
    request_sha256: str
    status: FactStatus
    error_code: str | None
    claim_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The run that a run is a rerun of, as far as the rerun compares itself with it."""

    spec: JsonObject
    manifest_id: str | None
    """SHA-256 of its sample manifest; None if it was never indexed."""
    manifest_key: str | None
    """Storage key of the manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Rows of other runs that may answer requests of a job."""

    parent: Parent | None
    reusable: Sequence[ReusableView]
    """Rows of the parent."""
    cached: Sequence[ReusableView]
    """Rows of any run of the project."""
    engines: Mapping[UUID, JsonObject]
    """Claim that measured one of these rows → engine that it recorded."""


async def candidates(
    session: AsyncSession,
    *,
    parent_run_id: UUID | None,
    project_id: str,
    target_digest: str,
    request_sha256: Sequence[str],
    kinds: Sequence[PhaseKind],
    given: str | None = None,
) -> Candidates:
    """Read the rows that a job may reuse. Of runs that are not hot, only the parent's rows are, if they are given.

    Args:
        session: The session.
        parent_run_id: The run whose rows may be reused; None: no run's.
        project_id: Project of the job.
        target_digest: Digest of the job's target.
        request_sha256: Requests that any run of the project may have sent; empty: only the parent's rows are read.
        kinds: Kinds of the phases whose rows may be those of the phase that the job fills.
        given: Rows of the parent that are not in Postgres, as JSON (`facts.tiered`); None: there are none.
    """
    parent, rows, equal = None, list[ReusableView](), list[ReusableView]()
    if parent_run_id is not None:
        run = (await session.execute(text(_PARENT), {"run": parent_run_id})).one_or_none()
        if run is not None:
            parent = Parent(spec=run.spec, manifest_id=run.manifest_id, manifest_key=run.storage_key)
        rows = await _reusable(session, parent_run_id, given)
    if request_sha256:
        equal = await _cached(
            session,
            project_id=project_id,
            target_digest=target_digest,
            request_sha256=request_sha256,
            kinds=kinds,
            parent_run_id=parent_run_id,
        )
    claims = await session.execute(text(_ENGINES), {"claims": list({row.claim_id for row in (*rows, *equal)})})
    engines = {claim.id: claim.engine for claim in claims}
    return Candidates(parent=parent, reusable=rows, cached=equal, engines=engines)


async def engines_of_members(session: AsyncSession, run_id: UUID, target_digest: str) -> list[JsonObject]:
    """Read the engines that gave the answers of a model in a run of a pipeline, as far as its rows are in Postgres.

    Those that were loaded with less than full quality are left out, as in `candidates`: none of their rows is reused.
    """
    values = {"run": run_id, "target": target_digest}
    return [row.engine for row in await session.execute(text(_ENGINES_OF_MEMBERS), values)]


async def add_to_shard(session: AsyncSession, job_id: UUID, reused: Sequence[ReusedFactView]) -> None:
    """Reuse rows in a shard, where they count as done; the caller holds the job by its claim."""
    if not reused:
        return
    await add_facts(session, reused)
    await session.execute(
        text("UPDATE job SET done = done + :reused WHERE id = :job"), {"reused": len(reused), "job": job_id}
    )


async def facts_of_run(session: AsyncSession, run_id: UUID) -> list[ReusedFactView]:
    """Read the single rows that a run reuses."""
    statement = select(_FACT).where(_FACT.c.run_id == run_id).order_by(_FACT.c.phase, _FACT.c.ordinal)
    return await fetch_all(session, ReusedFactView, statement)


async def _reusable(session: AsyncSession, run_id: UUID, given: str | None) -> list[ReusableView]:
    """Read all rows of a run's counting accuracy phases; the caller decides by their status which are reused."""
    rows = await session.execute(*with_given(_REUSABLE, {"run": run_id}, given))
    return [view_of(ReusableView, row) for row in rows]


async def _cached(
    session: AsyncSession,
    *,
    project_id: str,
    target_digest: str,
    request_sha256: Sequence[str],
    kinds: Sequence[PhaseKind],
    parent_run_id: UUID | None,
) -> list[ReusableView]:
    """Read the answers of a target to these requests in any run of a project; of several equal ones the earliest.

    Only phases of `kinds` are read, so that a judge reuses verdicts and a run reuses answers. Of the parent, members
    that were interrupted have answers too, such as those of a cancelled run.
    """
    values = {
        "kinds": list(kinds),
        "project": project_id,
        "target": target_digest,
        "requests": list(request_sha256),
        "parent": parent_run_id,
    }
    rows = await session.execute(text(_CACHED), values)
    return [view_of(ReusableView, row) for row in rows]


async def _phase(session: AsyncSession, run_id: UUID, phase: int) -> ReusedPhaseView | None:
    return await fetch_one(
        session, ReusedPhaseView, select(_PHASE).where(_PHASE.c.run_id == run_id, _PHASE.c.phase == phase)
    )


_PARENT = """
SELECT run.spec, manifest.id AS manifest_id, manifest.storage_key
FROM run LEFT JOIN sample_manifest manifest ON manifest.id = run.manifest_id WHERE run.id = :run
"""

# A model that was loaded with less than full quality is the same as no other, even with the same engine.
_FULL_QUALITY = "NOT COALESCE(jsonb_path_exists(claim.environment, '$.fallbacks[*].is_lossy ? (@ == true)'), false)"

_ENGINES = f"""
SELECT id, engine FROM claim
WHERE id = ANY(CAST(:claims AS uuid[])) AND engine IS NOT NULL AND {_FULL_QUALITY}
"""  # noqa: S608 - consists of this module's own text

_ENGINES_OF_MEMBERS = f"""
WITH answers AS (
    SELECT fact.claim_id FROM fact JOIN phase ON phase.run_id = fact.run_id AND phase.no = fact.phase
    WHERE fact.run_id = :run AND phase.kind = 'member'
    UNION
    SELECT fact.claim_id FROM reused_fact reused
    JOIN fact ON fact.run_id = reused.source_run_id AND fact.phase = reused.source_phase
             AND fact.ordinal = reused.source_ordinal
    WHERE reused.run_id = :run
    UNION
    SELECT fact.claim_id FROM reused_phase reused
    JOIN fact ON fact.run_id = reused.source_run_id AND fact.phase = reused.source_phase
    WHERE reused.run_id = :run
)
SELECT DISTINCT claim.engine FROM claim JOIN answers ON answers.claim_id = claim.id JOIN job ON job.id = claim.job_id
WHERE job.target_digest = :target AND claim.engine IS NOT NULL AND {_FULL_QUALITY}
"""  # noqa: S608 - consists of this module's own text

_REUSABLE = """
WITH counting AS (
    SELECT run_id, phase, ordinal, phase AS own_phase, ordinal AS own_ordinal FROM fact WHERE run_id = :run
    UNION ALL
    SELECT source_run_id, source_phase, source_ordinal, phase, ordinal FROM reused_fact WHERE run_id = :run
    UNION ALL
    SELECT fact.run_id, fact.phase, fact.ordinal, reused.phase, fact.ordinal FROM reused_phase reused
    JOIN fact ON fact.run_id = reused.source_run_id AND fact.phase = reused.source_phase WHERE reused.run_id = :run
)
SELECT fact.run_id AS source_run_id, fact.phase AS source_phase, fact.ordinal AS source_ordinal,
       counting.own_ordinal AS ordinal, fact.repeat, fact.request_sha256, fact.status, fact.error_code, fact.claim_id
FROM counting JOIN fact USING (run_id, phase, ordinal)
JOIN phase part ON part.run_id = :run AND part.no = counting.own_phase AND part.counts AND part.kind = 'accuracy'
"""

_CACHED = """
SELECT DISTINCT ON (fact.request_sha256, fact.repeat, claim.engine ->> 'version', claim.engine -> 'variables')
       fact.run_id AS source_run_id, fact.phase AS source_phase, fact.ordinal AS source_ordinal, fact.ordinal,
       fact.repeat, fact.request_sha256, fact.status, fact.error_code, fact.claim_id
FROM fact
JOIN phase ON phase.run_id = fact.run_id AND phase.no = fact.phase
JOIN claim ON claim.id = fact.claim_id
JOIN job ON job.id = claim.job_id
WHERE fact.request_sha256 = ANY(CAST(:requests AS varchar[])) AND fact.status = 'ok' AND fact.origin = 'live'
  AND phase.kind = ANY(CAST(:kinds AS varchar[]))
  AND (phase.state IN ('COMPLETE', 'STOPPED')
       OR (phase.run_id = CAST(:parent AS uuid) AND phase.kind = 'member' AND phase.state = 'VOID'))
  AND job.project_id = :project AND job.target_digest = :target
ORDER BY fact.request_sha256, fact.repeat, claim.engine ->> 'version', claim.engine -> 'variables', claim.started_at,
  fact.run_id
"""
