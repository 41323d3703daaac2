"""Devices in the database: quarantined, inherited by the next boot, released, and what placement sees of them."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from tests.support.engine_room import EngineRoom
from vlmhyperbench.db import capacity, claims, workers
from vlmhyperbench.db.engine import Database
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.outcomes import Failed
from vlmhyperbench.domain.states import JobState
from vlmhyperbench.errors import Conflict

pytestmark = pytest.mark.anyio

BROKEN = Failed(code="device_quarantined", message="The device g0 was quarantined.", is_charged=False)


@pytest.fixture
def room(fresh_database: Database) -> EngineRoom:
    return EngineRoom(fresh_database)


async def quarantine(room: EngineRoom, worker: UUID, uuid: str = "g0") -> bool:
    async with room.database.transaction() as session:
        return await workers.quarantine(session, worker, uuid=uuid, reason="Xid 48.")


async def states(room: EngineRoom, *worker_ids: UUID) -> list[tuple[str, str | None]]:
    async with room.database.transaction() as session:
        views = await workers.devices_of(session, worker_ids)
    return [(view.state, view.state_reason) for view in views]


async def test_a_device_is_quarantined_once_with_its_reason_and_whoever_offers_it_next(room: EngineRoom) -> None:
    worker = await room.add_worker(devices=2)
    assert await quarantine(room, worker)
    assert not await quarantine(room, worker)
    assert await states(room, worker) == [("BROKEN", "Xid 48."), ("OK", None)]
    successor = await room.add_worker(devices=2)
    assert await states(room, successor) == [("BROKEN", "Xid 48."), ("OK", None)]
    async with room.database.transaction() as session:
        [first, _] = await workers.devices_of(session, [successor])
        assert first.state_by == f"w-{worker}"
        assert first.state_since is not None


async def test_a_person_releases_a_device_of_every_worker_that_offers_it(room: EngineRoom) -> None:
    worker = await room.add_worker(devices=1)
    await quarantine(room, worker)
    successor = await room.add_worker(devices=1)
    async with room.database.transaction() as session:
        assert await workers.release_device(session, "g0", by="ann")
        assert await workers.release_device(session, "g0", by="ann") is False
        assert await workers.release_device(session, "g7", by="ann") is None
        assert {view.state_by for view in await workers.devices_of(session, [worker, successor])} == {"ann"}
    assert set(await states(room, worker, successor)) == {("OK", None)}
    assert set(await states(room, await room.add_worker(devices=1))) == {("OK", None)}


async def test_every_quarantine_stays_on_record_with_its_fault_and_who_released_it(room: EngineRoom) -> None:
    worker, other = await room.add_worker(devices=1), await room.add_worker(devices=1)
    await quarantine(room, worker)
    await quarantine(room, other)  # offers the same device, which is in quarantine once
    async with room.database.transaction() as session:
        [record] = await workers.quarantines(session)
        assert (record.device, record.worker, record.reason) == ("g0", f"w-{worker}", "Xid 48.")
        assert (record.released_by, record.released_at) == (None, None)
        await workers.release_device(session, "g0", by="ann")
    await quarantine(room, worker)
    async with room.database.transaction() as session:
        assert len(await workers.quarantines(session)) == 1
        records = await workers.quarantines(session, is_open=False)
    assert [record.released_by for record in sorted(records, key=lambda record: record.since)] == ["ann", None]
    assert any(record.released_at is not None for record in records)


async def test_a_device_in_quarantine_is_not_free_and_cannot_be_reserved(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    worker = await room.add_worker(devices=1)
    await quarantine(room, worker)
    async with room.database.transaction() as session:
        shown = {found.id: found for found in (await capacity.workers(session, stale_s=30)).live}
        assert [device.is_usable for device in shown[worker].devices] == [False]
    with pytest.raises(Conflict):
        await room.assign(shard.id, worker, device=0)
    async with room.database.transaction() as session:
        await workers.release_device(session, "g0", by="ann")
    assert await room.assign(shard.id, worker, device=0) is not None


async def test_a_job_that_was_assigned_to_a_device_before_its_quarantine_is_not_taken(room: EngineRoom) -> None:
    _, [shard] = await room.shards()
    worker = await room.add_worker(devices=1)
    assert await room.assign(shard.id, worker, device=0) is not None
    async with room.database.transaction() as session:
        assert [job.job_id for job in await claims.assigned(session, worker)] == [shard.id]
    await quarantine(room, worker)
    async with room.database.transaction() as session:
        assert await claims.assigned(session, worker) == []


async def test_the_failure_of_a_device_is_not_charged_to_its_job_and_raises_an_alert(room: EngineRoom) -> None:
    run, [shard] = await room.shards()
    for _ in range(7):  # more often than any budget allows
        held = await room.take(shard.id, await room.add_worker())
        assert await room.finish(held, BROKEN) is JobState.READY
    job = await room.job(shard.id)
    assert job.fails == 0
    assert await room.scalar("SELECT not_before <= now() FROM job WHERE id = :job", job=shard.id)
    failure = await room.scalar("SELECT failure FROM claim WHERE id = :id", id=held.claim_id)
    assert failure == {"code": BROKEN.code, "message": BROKEN.message}
    alerts = [event for event in await room.events(run.id) if event.type == "alert.raised"]
    assert [alert.data for alert in alerts] == [{"code": BROKEN.code, "message": BROKEN.message}] * 7


async def test_declared_workers_of_one_machine_are_placed_as_if_each_were_a_machine(room: EngineRoom) -> None:
    ground = Ground(machine="boot", cores=frozenset({0}))
    worker_ids = [await room.add_worker(ground=ground, is_declared=is_declared) for is_declared in (True, True, False)]
    async with room.database.transaction() as session:
        live = (await capacity.workers(session, stale_s=30)).live
        shown = {worker.id: worker.ground for worker in live}
        views = [await workers.get(session, worker_id) for worker_id in worker_ids]
    first, second, real = (shown[worker_id] for worker_id in worker_ids)
    assert first.is_apart_from(second)
    assert first.is_apart_from(real)
    assert real.machine == "boot"
    assert [view is not None and view.is_declared for view in views] == [True, True, False]


async def test_a_reading_is_of_one_device_of_one_worker_and_has_the_databases_time(room: EngineRoom) -> None:
    worker = await room.add_worker(devices=2)
    async with room.database.transaction() as session:
        reading = workers.DeviceReading(no=0, used_bytes=2**40, util_percent=37.5)
        await workers.record_readings(session, worker, [reading])
        await workers.record_readings(session, uuid4(), [reading])
        first, second = await workers.devices_of(session, [worker])
    assert (first.used_bytes, first.util_percent) == (2**40, 37.5)
    assert first.read_at is not None
    assert (second.used_bytes, second.util_percent, second.read_at) == (None, None, None)
