from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import insert, text

from tests.support.builders import PROJECT, SHA, add_run, add_shard, add_worker, new_fact, unstored_chunk
from vlmhyperbench.db import (
    api_keys,
    artifacts,
    chunks,
    evidence,
    facts,
    idempotency,
    manifests,
    measures,
    phases,
    workers,
)
from vlmhyperbench.db.appending import append
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.queries import PageKey, table_of
from vlmhyperbench.db.tables import ClaimRow
from vlmhyperbench.domain.states import FactStatus, PhaseState
from vlmhyperbench.errors import Conflict

pytestmark = pytest.mark.anyio


async def _claim_key(database: Database, key: str, body: str, *, principal: str = "p") -> tuple[UUID, bool]:
    """Return the resource of the key, and whether this call claimed the key."""
    resource_id = uuid4()
    async with database.transaction() as session:
        result = await idempotency.claim(
            session, principal=principal, key=key, body_sha256=body, resource="run", resource_id=resource_id
        )
    return result, result == resource_id


async def test_concurrent_requests_with_one_key_create_one_run_and_all_get_it(database: Database) -> None:
    claims = await asyncio.gather(*(_claim_key(database, "together", "body") for _ in range(12)))
    assert sum(is_new for _, is_new in claims) == 1
    assert len({resource_id for resource_id, _ in claims}) == 1


async def test_a_key_with_another_body_is_a_conflict_and_keys_are_scoped_by_principal(database: Database) -> None:
    first, _ = await _claim_key(database, "key", "body")
    with pytest.raises(Conflict) as refused:
        await _claim_key(database, "key", "other")
    assert refused.value.code == "idempotency_conflict"
    _, is_new = await _claim_key(database, "key", "other", principal="q")
    assert is_new
    assert await _claim_key(database, "key", "body") == (first, False)


async def test_the_resource_of_a_key_can_be_read_without_claiming_the_key(database: Database) -> None:
    async with database.transaction() as session:
        assert await idempotency.known(session, principal="p", key="new", body_sha256="body") is None
    first, is_new = await _claim_key(database, "new", "body")
    assert is_new
    async with database.transaction() as session:
        assert await idempotency.known(session, principal="p", key="new", body_sha256="body") == first
        with pytest.raises(Conflict):
            await idempotency.known(session, principal="p", key="new", body_sha256="other")


async def test_a_key_whose_transaction_failed_is_free_again(database: Database) -> None:
    async def fail_half_way() -> None:
        async with database.transaction() as session:
            await idempotency.claim(
                session, principal="p", key="failed", body_sha256="a", resource="run", resource_id=uuid4()
            )
            raise KeyError

    with pytest.raises(KeyError):
        await fail_half_way()
    _, is_new = await _claim_key(database, "failed", "b")
    assert is_new


async def test_a_manifest_is_stored_once_by_content(database: Database) -> None:
    async def add() -> object:
        async with database.transaction() as session:
            return await manifests.add(
                session,
                manifest_id=SHA,
                dataset_digest="dataset",
                storage_key="manifests/x",
                size_bytes=1,
                samples=2,
                unreadable=0,
                group_columns=["doc_class"],
            )

    first, *others = await asyncio.gather(*(add() for _ in range(4)))
    assert all(other == first for other in others)
    async with database.transaction() as session:
        assert await manifests.of_dataset(session, "dataset") == first
        assert await manifests.of_dataset(session, "unknown") is None
        assert await manifests.get(session, "unknown") is None


async def test_phases_are_read_in_order(database: Database) -> None:
    async with database.transaction() as session:
        run = await add_run(session)
        for no in (2, 1):
            await phases.add(
                session, run_id=run.id, no=no, step=1, kind="accuracy", counts=True, params={"in_flight": 4}, count=no
            )
        result = await phases.of_run(session, run.id)
        assert await phases.get(session, run.id, 3) is None
    assert [(phase.no, phase.count, phase.state, phase.params) for phase in result] == [
        (1, 1, PhaseState.OPEN, {"in_flight": 4}),
        (2, 2, PhaseState.OPEN, {"in_flight": 4}),
    ]


async def test_facts_are_counted(database: Database) -> None:
    async with database.transaction() as session:
        shard = await add_shard(session)
        rows = [
            new_fact(ordinal, row=ordinal, status=FactStatus.ERROR if ordinal == 3 else FactStatus.OK)
            for ordinal in range(5)
        ]
        await append(session, job_id=shard.job_id, claim_id=shard.claim_id, chunk=unstored_chunk(shard), rows=rows)
    async with database.transaction() as session:
        run_id = shard.run.id
        assert await facts.counts(session, run_id) == [
            facts.FactCount(phase=1, status=FactStatus.ERROR, failure="model", rows=1),
            facts.FactCount(phase=1, status=FactStatus.OK, failure=None, rows=4),
        ]
        assert (await chunks.get(session, run_id, shard.claim_id, 1, 0)) is not None
        assert await chunks.of_run(session, run_id, phase=2) == []


async def test_measures_of_a_job_are_those_of_its_newest_claim(database: Database) -> None:
    async def add(run_id: UUID, job_id: UUID, claim_id: UUID, no: int) -> None:
        async with database.transaction() as session:
            await measures.add(
                session,
                run_id=run_id,
                claim_id=claim_id,
                no=no,
                job_id=job_id,
                storage_key=f"{claim_id}/{no}",
                sha256=SHA,
                size_bytes=1,
                rows=1,
                metrics=[{"name": "anls"}],
                environment="e",
                evaluation_id="e0123456789ab",
                fingerprint=None,
            )

    async with database.transaction() as session:
        shard = await add_shard(session)
        other = await add_shard(session, run=shard.run)
    old, new = uuid4(), uuid4()
    await add(shard.run.id, shard.job_id, old, 0)
    await add(shard.run.id, shard.job_id, old, 1)
    await add(shard.run.id, other.job_id, other.claim_id, 0)
    await add(shard.run.id, shard.job_id, new, 0)
    async with database.transaction() as session:
        result = await measures.of_run(session, shard.run.id)
    assert {(manifest.job_id, manifest.claim_id, manifest.no) for manifest in result} == {
        (shard.job_id, new, 0),
        (other.job_id, other.claim_id, 0),
    }
    assert result[0].metrics == ({"name": "anls"},)


async def test_only_the_newest_artifact_of_a_name_is_listed(fresh_database: Database) -> None:
    async def add(run_id: UUID | None, experiment_id: UUID | None, name: str) -> UUID:
        async with fresh_database.transaction() as session:
            return await artifacts.add(
                session,
                project_id=PROJECT,
                claim_id=uuid4(),
                kind="report",
                name=name,
                media_type="text/html",
                storage_key=f"{uuid4()}",
                sha256=SHA,
                size_bytes=1,
                run_id=run_id,
                experiment_id=experiment_id,
            )

    async with fresh_database.transaction() as session:
        run = await add_run(session)
    old = await add(run.id, None, "report.html")
    table = await add(run.id, None, "answers.csv")
    new = await add(run.id, None, "report.html")
    async with fresh_database.transaction() as session:
        assert [result.id for result in await artifacts.of_run(session, run.id)] == [table, new]
        assert await artifacts.of_experiment(session, uuid4()) == []
        page = await artifacts.page(session, project_id=PROJECT, limit=2)
        rest = await artifacts.page(session, project_id=PROJECT, after=PageKey(page[-1].created_at, page[-1].id))
        assert [result.id for result in [*page, *rest]] == [new, table, old]
        reports = await artifacts.page_of_reports(session, project_id=PROJECT, limit=1)
        after = PageKey(reports[-1].created_at, reports[-1].id)
        reports += await artifacts.page_of_reports(session, project_id=PROJECT, after=after)
        assert [(file.id, file.scope_name) for file in reports] == [(new, run.name), (old, run.name)]
        assert await artifacts.get(session, old, project_id="theirs") is None
        assert (await artifacts.get(session, old, project_id=PROJECT)) == rest[0]


async def test_a_new_boot_of_a_worker_replaces_the_earlier_one(fresh_database: Database) -> None:
    async def boot(name: str) -> UUID:
        async with fresh_database.transaction() as session:
            worker_id = uuid4()
            await workers.register(
                session,
                worker_id=worker_id,
                name=name,
                kind="inference",
                queue=f"q.{worker_id}",
                host="host",
                boot_id=uuid4(),
                pid=1,
                slots=2,
                version="0.1.0",
                devices=[
                    workers.NewDevice(no=no, kind="gpu", uuid=f"gpu{no}", name="GPU", memory_bytes=2**36)
                    for no in range(2)
                ],
            )
            return worker_id

    old, other, new = await boot("w"), await boot("other"), await boot("w")
    async with fresh_database.transaction() as session:
        assert [worker.id for worker in await workers.page(session)] == [other, new]
        everyone = await workers.page(session, is_present=False, limit=2)
        everyone += await workers.page(session, is_present=False, after=(everyone[-1].name, everyone[-1].id))
        assert {worker.id for worker in everyone} == {old, other, new}
        assert len(everyone) == 3
        devices = await workers.devices_of(session, [new])
        assert [(device.no, device.memory_bytes) for device in devices] == [(0, 2**36), (1, 2**36)]
        assert await workers.heartbeat(session, old) == "GONE"
        assert await workers.heartbeat(session, uuid4()) is None
        assert await workers.set_state(session, new, "DRAINING")
        assert not await workers.set_state(session, new, "DRAINING")
        assert not await workers.set_state(session, old, "LIVE")
        assert await workers.heartbeat(session, new) == "DRAINING"


async def test_a_key_is_valid_until_it_expires_or_is_revoked(fresh_database: Database) -> None:
    now = datetime.now(UTC)
    async with fresh_database.transaction() as session:
        for prefix, expires_at in {"a": None, "b": now + timedelta(hours=1), "c": now - timedelta(hours=1)}.items():
            await api_keys.add(
                session,
                prefix=prefix,
                hmac_sha256=prefix * 64,
                principal="p",
                project_id=PROJECT,
                scopes=["runs:read"],
                expires_at=expires_at,
            )
        assert [(await api_keys.valid(session, prefix)) is not None for prefix in "abcd"] == [True, True, False, False]
        assert [key.prefix for key in await api_keys.of_project(session, PROJECT)] == ["a", "b", "c"]
        assert await api_keys.is_taken(session, "p", project_id=PROJECT)
        assert await api_keys.revoke(session, "a", project_id="other", by="x") is None
        for by in ("first", "second"):
            revoked = await api_keys.revoke(session, "a", project_id=PROJECT, by=by)
            assert revoked is not None
            assert (revoked.revoked_by, revoked.revoked_at is not None) == ("first", True)
        assert await api_keys.valid(session, "a") is None
        again = await api_keys.add(
            session, prefix="a", hmac_sha256="z", principal="p", project_id=PROJECT, scopes=["runs:*", "admin"]
        )
        assert (again.hmac_sha256, again.scopes, again.revoked_at) == ("z", ("runs:*", "admin"), None)


async def test_claims_are_read_with_their_jobs(database: Database) -> None:
    async with database.transaction() as session:
        shard = await add_shard(session)
        worker_id = await add_worker(session)
        for claim_id, age in ((shard.claim_id, "1 minute"), (uuid4(), "2 minutes")):
            await session.execute(
                insert(table_of(ClaimRow)).values(
                    id=claim_id,
                    job_id=shard.job_id,
                    run_id=shard.run.id,
                    attempt_id=uuid4(),
                    worker_id=worker_id,
                    host="host",
                    boot_id=uuid4(),
                    machine={"cpu": 1},
                    packages={"a": "1"},
                )
            )
            await session.execute(
                text("UPDATE claim SET started_at = now() - CAST(:age AS interval) WHERE id = :id"),
                {"age": age, "id": claim_id},
            )
        result = await evidence.of_run(session, shard.run.id)
        assert [(each.claim.id == shard.claim_id, each.job.id) for each in result] == [
            (False, shard.job_id),
            (True, shard.job_id),
        ]
        assert [each.claim.machine for each in await evidence.of_claims(session, [shard.claim_id])] == [{"cpu": 1}]
        assert await evidence.of_experiment(session, uuid4()) == []
