"""Rows that a job may reuse: the parent's, and the earliest of equal answers in any run of the project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from sqlalchemy import insert, text

from tests.support.builders import PROJECT, SHA, add_shard, new_fact, unstored_chunk
from vlmhyperbench.db import reuse
from vlmhyperbench.db.appending import append
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import ClaimRow
from vlmhyperbench.domain.states import FactStatus
from vlmhyperbench_sdk.load import PhaseKind

pytestmark = pytest.mark.anyio

TARGET = "t" * 64
EARLY = datetime(2026, 1, 1, tzinfo=UTC)


async def answered(
    database: Database,
    *,
    version: str = "b1",
    variables: Mapping[str, str] | None = None,
    kind: PhaseKind = "accuracy",
    late_s: float = 0.0,
    phase_state: str = "COMPLETE",
    status: FactStatus = FactStatus.OK,
    fallbacks: Sequence[bool] = (),
) -> UUID:
    """Add a run that got one answer, and return the run's id."""
    async with database.transaction() as session:
        shard = await add_shard(session, kind=kind, end=1)
        await append(
            session,
            job_id=shard.job_id,
            claim_id=shard.claim_id,
            chunk=unstored_chunk(shard),
            rows=[replace(new_fact(0), status=status)],
        )
        job = text("UPDATE job SET target_digest = :target WHERE id = :id RETURNING worker_id, attempt_id")
        row = (await session.execute(job, {"target": TARGET, "id": shard.job_id})).one()
        await session.execute(
            insert(table_of(ClaimRow)).values(
                id=shard.claim_id,
                job_id=shard.job_id,
                run_id=shard.run.id,
                attempt_id=row.attempt_id,
                worker_id=row.worker_id,
                host="h",
                boot_id=shard.claim_id,
                machine={},
                packages={},
                engine={
                    "name": "llama.cpp",
                    "version": version,
                    **({"variables": dict(variables)} if variables is not None else {}),
                },
                environment={"fallbacks": [{"is_lossy": is_lossy} for is_lossy in fallbacks]} if fallbacks else None,
                started_at=EARLY + timedelta(seconds=late_s),
            )
        )
        closing = text("UPDATE phase SET state = :state WHERE run_id = :run")
        await session.execute(closing, {"state": phase_state, "run": shard.run.id})
    return shard.run.id


async def reusable_of(
    database: Database,
    *,
    project: str = PROJECT,
    target: str = TARGET,
    request: str = SHA,
    kind: PhaseKind = "accuracy",
) -> list[UUID]:
    """Return the runs whose answers may be reused."""
    candidates = await read(database, project=project, target=target, requests=[request], kind=kind)
    return [row.source_run_id for row in candidates.cached]


async def read(
    database: Database,
    *,
    parent: UUID | None = None,
    project: str = PROJECT,
    target: str = TARGET,
    requests: Sequence[str] = (),
    kind: PhaseKind = "accuracy",
) -> reuse.Candidates:
    async with database.transaction() as session:
        return await reuse.candidates(
            session,
            parent_run_id=parent,
            project_id=project,
            target_digest=target,
            request_sha256=requests,
            kinds=[kind],
        )


async def test_a_job_without_parent_and_cache_has_no_candidates(fresh_database: Database) -> None:
    await answered(fresh_database)
    assert await read(fresh_database) == reuse.Candidates(parent=None, reusable=[], cached=[], engines={})


async def test_rows_of_the_parent_come_with_its_spec_and_the_engine_that_measured_them(
    fresh_database: Database,
) -> None:
    parent, other = await answered(fresh_database), await answered(fresh_database, version="b2", late_s=1)
    candidates = await read(fresh_database, parent=parent, requests=[SHA])
    assert candidates.parent is not None
    assert candidates.parent.spec["task"]
    assert (candidates.parent.manifest_id, candidates.parent.manifest_key) == (None, None)
    [row] = candidates.reusable
    assert row.source_run_id == parent
    engines = {row.source_run_id: candidates.engines[row.claim_id]["version"] for row in candidates.cached}
    assert engines == {parent: "b1", other: "b2"}
    assert candidates.engines[row.claim_id] == {"name": "llama.cpp", "version": "b1"}


async def test_a_model_that_was_loaded_with_less_than_full_quality_is_the_same_as_no_other(
    fresh_database: Database,
) -> None:
    lossy = await answered(fresh_database, fallbacks=[False, True])
    assert (await read(fresh_database, parent=lossy, requests=[SHA])).engines == {}
    smaller = await answered(fresh_database, version="b2", fallbacks=[False])
    assert len((await read(fresh_database, parent=smaller, requests=[SHA])).engines) == 1


async def test_the_earlier_of_two_equal_answers_is_reused(fresh_database: Database) -> None:
    await answered(fresh_database, late_s=1)
    earliest = await answered(fresh_database)
    await answered(fresh_database, late_s=2)
    assert await reusable_of(fresh_database) == [earliest]


async def test_answers_of_different_engine_versions_are_distinguished(fresh_database: Database) -> None:
    old, new = await answered(fresh_database, version="b1"), await answered(fresh_database, version="b2", late_s=1)
    assert set(await reusable_of(fresh_database)) == {old, new}


async def test_answers_of_engines_with_other_settings_are_distinguished(fresh_database: Database) -> None:
    older = await answered(fresh_database)  # it recorded none
    first = await answered(fresh_database, variables={"OMP_NUM_THREADS": "1", "A": "1"}, late_s=1)
    other = await answered(fresh_database, variables={"OMP_NUM_THREADS": "2"}, late_s=2)
    await answered(fresh_database, variables={"A": "1", "OMP_NUM_THREADS": "1"}, late_s=3)
    assert set(await reusable_of(fresh_database)) == {older, first, other}


async def test_answers_of_another_project_target_request_or_kind_are_not_reused(fresh_database: Database) -> None:
    await answered(fresh_database)
    assert await reusable_of(fresh_database, project="another") == []
    assert await reusable_of(fresh_database, target="u" * 64) == []
    assert await reusable_of(fresh_database, request="0" * 64) == []
    assert await reusable_of(fresh_database, kind="judge") == []
    verdict = await answered(fresh_database, kind="judge")
    assert await reusable_of(fresh_database, kind="judge") == [verdict]


async def test_failed_rows_and_rows_of_open_phases_are_not_reused(fresh_database: Database) -> None:
    await answered(fresh_database, status=FactStatus.ERROR)
    await answered(fresh_database, phase_state="OPEN")
    await answered(fresh_database, phase_state="VOID")
    assert await reusable_of(fresh_database) == []
    stopped = await answered(fresh_database, phase_state="STOPPED")
    assert await reusable_of(fresh_database) == [stopped]


async def test_answers_of_a_member_that_was_interrupted_are_reused_by_a_rerun_of_its_run(
    fresh_database: Database,
) -> None:
    cancelled = await answered(fresh_database, kind="member", phase_state="VOID")
    await answered(fresh_database, kind="member", phase_state="VOID", late_s=1)
    assert await reusable_of(fresh_database, kind="member") == []
    candidates = await read(fresh_database, parent=cancelled, requests=[SHA], kind="member")
    assert [row.source_run_id for row in candidates.cached] == [cancelled]
