"""Pages of a run's rows, and the rows that it may reuse, in whatever tier they are."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from vlmhyperbench.db import manifests, results, reuse, runs, tiers
from vlmhyperbench.db.engine import AsyncSession, Database
from vlmhyperbench.db.results import ResultRow, Wanted
from vlmhyperbench.db.reuse import Candidates
from vlmhyperbench.storage import Storage
from vlmhyperbench_sdk.load import PhaseKind


async def read_page(session: AsyncSession, storage: Storage, run_id: UUID, wanted: Wanted) -> list[ResultRow]:
    """Read a page of a run's counting rows, as `db.results.page` does; `session` is of one snapshot.

    Raises:
        NotReady: the run, or one whose rows it reuses, is cold.
        Damaged: a file of rows is missing, or has other content.
        Unavailable: database or storage do not respond.
    """
    sources = await tiers.of_sources(session, run_id)
    if not sources:
        return await results.page(session, run_id, wanted)
    from vlmhyperbench.facts import tiered  # imports polars on first use

    run = await runs.get(session, run_id)
    manifest = await manifests.get(session, run.manifest_id) if run is not None and run.manifest_id else None
    warm = await tiered.warm_rows(session, storage, run_id, "counting", sources)
    given = await tiered.given_page(warm, wanted, samples=manifest.samples if manifest else 0)
    return await results.page(session, run_id, wanted, given=given)


async def read_candidates(
    database: Database,
    storage: Storage,
    *,
    parent_run_id: UUID | None,
    project_id: str,
    target_digest: str,
    request_sha256: list[str],
    kinds: Sequence[PhaseKind],
) -> Candidates:
    """Read the rows that a job may reuse, as `db.reuse.candidates` does.

    Raises:
        NotReady: the parent, or a run whose rows it reuses, is cold.
        Damaged: a file of rows is missing, or has other content.
        Unavailable: database or storage do not respond.
    """
    async with database.snapshot() as session:
        given = None
        sources = await tiers.of_sources(session, parent_run_id) if parent_run_id is not None else []
        if parent_run_id is not None and sources:
            from vlmhyperbench.facts import tiered  # imports polars on first use

            given = await tiered.given_all(await tiered.warm_rows(session, storage, parent_run_id, "all", sources))
        return await reuse.candidates(
            session,
            parent_run_id=parent_run_id,
            project_id=project_id,
            target_digest=target_digest,
            request_sha256=request_sha256,
            kinds=kinds,
            given=given,
        )


async def reused_claim_ids(session: AsyncSession, storage: Storage, run_id: UUID) -> set[UUID]:
    """Return the claims that measured the rows which a run reuses and which are in files; `session` is of one snapshot.

    Raises:
        NotReady: a run whose rows it reuses is cold.
        Damaged: a file of rows is missing, or has other content.
        Unavailable: database or storage do not respond.
    """
    sources = [source for source in await tiers.of_sources(session, run_id) if source.run_id != run_id]
    if not sources:
        return set()
    from vlmhyperbench.facts import tiered  # imports polars on first use

    warm = await tiered.warm_rows(session, storage, run_id, "all", sources)
    return {UUID(claim_id) for claim_id in await tiered.claim_ids(warm)}
