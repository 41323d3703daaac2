"""The tiers of runs: where their rows are, what users asked for, and what may move now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar
from uuid import UUID

from sqlalchemy import func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import fetch_all, fetch_one, table_of
from vlmhyperbench.db.tables import RunRow, RunTierRow
from vlmhyperbench.db.views import RunTierView, view_of
from vlmhyperbench.domain.tiers import ORDER, StoredRun, Tier, TierPolicy
from vlmhyperbench.errors import NotReady

_TIER = table_of(RunTierRow)
_RUN = table_of(RunRow)
_MAX_DUE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRunView:
    """A run with what decides on its tier."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {"tier": Tier}

    id: UUID
    name: str
    state: str
    finished_at: datetime | None
    tier: Tier
    is_pinned: bool
    is_baseline: bool
    readers: int
    children: int
    is_experiment_open: bool
    wanted: str | None
    restored_at: datetime | None
    moved_at: datetime | None
    error: str | None
    rows: int
    """Rows that left Postgres; 0 for a hot run."""
    chunk_bytes: int
    """Size of the payloads of its requests."""
    facts_bytes: int | None
    archive_bytes: int | None

    @property
    def size_bytes(self) -> int:
        """Size of its payloads with the file of its rows, or of its archive."""
        is_cold = self.tier is Tier.COLD and self.archive_bytes is not None
        return (self.archive_bytes or 0) if is_cold else self.chunk_bytes + (self.facts_bytes or 0)

    @property
    def for_rules(self) -> StoredRun:
        """The run as the rules of tiers see it."""
        return self.for_rules_wanting(None)

    def for_rules_wanting(self, wanted: Tier | None) -> StoredRun:
        """Return the run as the rules see it; `wanted` is a tier that is asked for, if it is not stored yet."""
        return StoredRun(
            tier=self.tier,
            finished_at=self.finished_at,
            restored_at=self.restored_at,
            wanted=wanted or (Tier(self.wanted) if self.wanted else None),
            is_pinned=self.is_pinned,
            is_baseline=self.is_baseline,
            readers=self.readers,
            children=self.children,
            is_experiment_open=self.is_experiment_open,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A stored file that holds rows or payloads of a run."""

    key: str
    sha256: str
    size_bytes: int


async def get(session: AsyncSession, run_id: UUID) -> RunTierView | None:
    """Read the tier of a run; None if it never moved and nobody asked for anything: it is hot."""
    return await fetch_one(session, RunTierView, select(_TIER).where(_TIER.c.run_id == run_id))


async def of_sources(session: AsyncSession, run_id: UUID) -> list[RunTierView]:
    """Read the tiers of a run and of the runs that measured rows which it reuses; those that are hot are left out."""
    rows = await session.execute(text(_OF_SOURCES), {"run": run_id})
    return [view_of(RunTierView, row) for row in rows]


def refuse_cold(tiers: Sequence[RunTierView]) -> None:
    """Refuse to read rows that are in an archive.

    Raises:
        NotReady: a run is cold (`run_archived`), or is being restored (`run_restoring`).
    """
    for tier in tiers:
        if tier.tier is not Tier.COLD:
            continue
        if tier.wanted in (Tier.HOT, Tier.WARM):
            message = f"The run {tier.run_id} is being restored from its archive."
            raise NotReady(message, cure="Try again in a minute.", code="run_restoring")
        cure = f"Restore it with `vlmhyperbench storage restore {tier.run_id}`."
        message = f"The run {tier.run_id} is archived: its requests and answers are in a compressed file."
        if tier.error:
            message = f"{message} Its last move failed: {tier.error}"
        raise NotReady(message, cure=cure, code="run_archived")


async def counts_of_phase(session: AsyncSession, run_id: UUID, phase: int) -> tuple[int, int]:
    """Count the measured rows of a phase, and those of them that are not `ok`, in whatever tier they are."""
    row = (await session.execute(text(_COUNTS_OF_PHASE), {"run": run_id, "phase": phase})).one()
    return int(row.rows), int(row.failed)


async def listed(
    session: AsyncSession, *, project_id: str | None = None, run_ids: Sequence[UUID] | None = None, limit: int = 1000
) -> list[StoredRunView]:
    """Read runs with what decides on their tier, oldest first."""
    values = {"project": project_id, "ids": None if run_ids is None else list(run_ids), "limit": limit}
    rows = await session.execute(text(f"{_RUNS} WHERE {_CHOSEN} ORDER BY run.created_at, run.id LIMIT :limit"), values)
    return [view_of(StoredRunView, row) for row in rows]


async def may_move(session: AsyncSession) -> bool:
    """Return whether this account may take rows out of the table of facts."""
    return bool(await session.scalar(select(func.has_table_privilege("fact", "DELETE"))))


async def due(session: AsyncSession, policy: TierPolicy) -> list[StoredRunView]:
    """Read runs that users want in another tier, then those that the policy may move; `domain.tiers` decides.

    A run whose last move failed is tried again after an hour.
    """
    values = {
        "warm": policy.warm_after_days,
        "cold": policy.cold_after_days,
        "restored": policy.restored_days,
        "limit": _MAX_DUE,
    }
    rows = await session.execute(text(f"{_RUNS} WHERE {_DUE}"), values)
    return [view_of(StoredRunView, row) for row in rows]


async def files(session: AsyncSession, run_id: UUID) -> list[StoredFile]:
    """Read the files of a run's rows and payloads, which its archive has; those of scores and reports stay outside."""
    rows = await session.execute(text(_FILES), {"run": run_id})
    return [StoredFile(key=row.key, sha256=row.sha256, size_bytes=row.size_bytes) for row in rows]


async def totals(session: AsyncSession, *, project_id: str) -> dict[Tier, tuple[int, int, int]]:
    """Count the finished runs of each tier, their rows outside Postgres and the bytes of their files."""
    rows = await session.execute(text(_TOTALS), {"project": project_id})
    counted = {row.tier: (row.runs, row.rows, row.bytes) for row in rows}
    return {tier: counted.get(tier.value, (0, 0, 0)) for tier in Tier}


async def want(session: AsyncSession, run_id: UUID, tier: Tier, *, by: str) -> None:
    """Store that a user wants a run in a tier; whoever keeps house moves it."""
    await session.execute(text(_WANT), {"run": run_id, "tier": tier.value, "by": by})


async def pin(session: AsyncSession, run_id: UUID, *, is_pinned: bool, by: str) -> None:
    """Pin a run, so that it is never deleted, or unpin it."""
    values = {"is_pinned": is_pinned, "pinned_by": by if is_pinned else None}
    await write(session, run_id, values)


async def write(session: AsyncSession, run_id: UUID, values: Mapping[str, object]) -> None:
    """Write columns of a run's tier, which gets a row if it has none."""
    document: dict[str, object] = {"counts": [], "failures": []} | dict(values)
    statement = insert(_TIER).values(run_id=run_id, **document)
    await session.execute(statement.on_conflict_do_update(index_elements=["run_id"], set_=dict(values)))


@dataclass(frozen=True, slots=True)
class Ending:
    """When a run ended; None: it is open."""

    finished_at: datetime | None


async def ending(session: AsyncSession, run_id: UUID, *, is_locked: bool = False) -> Ending | None:
    """Read when a run ended, and lock it until the transaction ends, if asked to; None: there is no such run."""
    statement = select(_RUN.c.finished_at).where(_RUN.c.id == run_id)
    row = (await session.execute(statement.with_for_update(key_share=True) if is_locked else statement)).one_or_none()
    return None if row is None else Ending(row.finished_at)


async def record_move(
    session: AsyncSession, run_id: UUID, before: Tier, after: Tier, values: Mapping[str, object]
) -> None:
    """Record that a run is in another tier; what a user asked for is done once the run is there."""
    known = await get(session, run_id)
    times: dict[str, object] = {"moved_at": func.now(), "error": None, "error_at": None}
    if ORDER.index(after) < ORDER.index(before):
        times["restored_at"] = func.now()
    if known is not None and known.wanted == after.value:
        times["wanted"] = None
    await write(session, run_id, dict(values) | times)


async def record_failure(session: AsyncSession, run_id: UUID, error: str) -> None:
    """Store why a move failed; what a user asked for is not tried again."""
    await write(session, run_id, {"error": error, "wanted": None})
    await session.execute(text("UPDATE run_tier SET error_at = now() WHERE run_id = :run"), {"run": run_id})


async def with_loose_files(session: AsyncSession, *, older_than_s: float) -> list[RunTierView]:
    """Read the cold runs whose files still lie beside their archive, and were archived long enough ago."""
    statement = select(_TIER).where(_TIER.c.tier == "cold", _TIER.c.has_loose_files, text(_MOVED_BEFORE))
    return await fetch_all(session, RunTierView, statement.params(older=older_than_s))


_FILES = """
SELECT storage_key AS key, sha256, size_bytes FROM chunk WHERE run_id = :run
UNION SELECT facts_key, facts_sha256, facts_bytes FROM run_tier WHERE run_id = :run AND facts_key IS NOT NULL
ORDER BY key
"""

_MOVED_BEFORE = "moved_at <= now() - make_interval(secs => :older)"

_OF_SOURCES = """
SELECT t.* FROM run_tier t WHERE t.tier <> 'hot' AND t.run_id IN (
    SELECT CAST(:run AS uuid)
    UNION SELECT source_run_id FROM reused_phase WHERE run_id = :run
    UNION SELECT source_run_id FROM reused_fact WHERE run_id = :run
) ORDER BY t.run_id
"""

_COUNTS_OF_PHASE = """
SELECT coalesce(CAST(sum(n) AS bigint), 0) AS rows,
       coalesce(CAST(sum(n) FILTER (WHERE status <> 'ok') AS bigint), 0) AS failed
FROM (
    SELECT status, count(*) AS n FROM fact WHERE run_id = :run AND phase = :phase GROUP BY status
    UNION ALL
    SELECT gone.status, gone.rows FROM run_tier t
    CROSS JOIN jsonb_to_recordset(t.counts) AS gone(phase integer, status text, rows bigint)
    WHERE t.run_id = :run AND t.tier <> 'hot' AND gone.phase = :phase
) counted
"""

_RUNS = """
SELECT run.id, run.name, run.state, run.finished_at, coalesce(t.tier, 'hot') AS tier,
       coalesce(t.is_pinned, false) AS is_pinned, t.wanted, t.restored_at, t.moved_at, t.error,
       CASE WHEN t.tier <> 'hot' THEN t.rows ELSE 0 END AS rows, t.facts_bytes, t.archive_bytes,
       (run.experiment_id IS NOT NULL AND run.position = 0) OR EXISTS (
           SELECT FROM run other WHERE other.spec -> 'stop' ->> 'baseline' = CAST(run.id AS text)) AS is_baseline,
       experiment.id IS NOT NULL AND experiment.finished_at IS NULL AS is_experiment_open,
       (SELECT count(*) FROM (
            SELECT run_id FROM reused_phase WHERE source_run_id = run.id
            UNION SELECT run_id FROM reused_fact WHERE source_run_id = run.id
            UNION SELECT child.id FROM run child WHERE child.parent_run_id = run.id AND child.finished_at IS NULL
        ) reader LEFT JOIN run_tier rt ON rt.run_id = reader.run_id
        WHERE coalesce(rt.tier, 'hot') <> 'cold') AS readers,
       (SELECT count(*) FROM (
            SELECT run_id FROM reused_phase WHERE source_run_id = run.id
            UNION SELECT run_id FROM reused_fact WHERE source_run_id = run.id
            UNION SELECT child.id FROM run child WHERE child.parent_run_id = run.id
        ) child) AS children,
       (SELECT coalesce(CAST(sum(size_bytes) AS bigint), 0) FROM chunk WHERE chunk.run_id = run.id) AS chunk_bytes
FROM run LEFT JOIN run_tier t ON t.run_id = run.id LEFT JOIN experiment ON experiment.id = run.experiment_id
"""

_CHOSEN = """
(CAST(:project AS text) IS NULL OR run.project_id = :project)
AND (CAST(:ids AS uuid[]) IS NULL OR run.id = ANY(CAST(:ids AS uuid[])))
"""

_DUE = """
run.finished_at IS NOT NULL
AND (t.error_at IS NULL OR t.error_at < now() - interval '1 hour' OR t.wanted IS NOT NULL)
AND (
    t.wanted <> t.tier
    OR (t.wanted IS NULL AND coalesce(t.tier, 'hot') = 'hot'
        AND run.finished_at < now() - CAST(:warm AS double precision) * interval '1 day'
        AND coalesce(t.restored_at < now() - CAST(:restored AS double precision) * interval '1 day', true))
    OR (t.wanted IS NULL AND t.tier = 'warm'
        AND run.finished_at < now() - CAST(:cold AS double precision) * interval '1 day'
        AND coalesce(t.restored_at < now() - CAST(:restored AS double precision) * interval '1 day', true)
        AND NOT EXISTS (
            SELECT FROM (SELECT run_id FROM reused_phase WHERE source_run_id = run.id
                         UNION SELECT run_id FROM reused_fact WHERE source_run_id = run.id) reader
            LEFT JOIN run_tier rt ON rt.run_id = reader.run_id WHERE coalesce(rt.tier, 'hot') <> 'cold'))
)
ORDER BY t.wanted_at NULLS LAST, run.finished_at, run.id LIMIT :limit
"""

_TOTALS = """
SELECT coalesce(t.tier, 'hot') AS tier, count(*) AS runs,
       coalesce(CAST(sum(CASE WHEN t.tier <> 'hot' THEN t.rows END) AS bigint), 0) AS rows,
       coalesce(CAST(sum(CASE t.tier WHEN 'cold' THEN t.archive_bytes ELSE coalesce(t.facts_bytes, 0) + chunks.bytes
                         END) AS bigint), 0) AS bytes
FROM run LEFT JOIN run_tier t ON t.run_id = run.id
LEFT JOIN (SELECT run_id, sum(size_bytes) AS bytes FROM chunk GROUP BY run_id) chunks ON chunks.run_id = run.id
WHERE run.finished_at IS NOT NULL AND run.project_id = :project GROUP BY 1
"""

_WANT = """
INSERT INTO run_tier (run_id, counts, failures, wanted, wanted_by, wanted_at)
VALUES (:run, '[]', '[]', :tier, :by, now())
ON CONFLICT (run_id) DO UPDATE SET wanted = :tier, wanted_by = :by, wanted_at = now(), error = NULL, error_at = NULL
"""
