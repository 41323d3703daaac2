"""Workers and their devices: registered at boot, seen by their heartbeats. Each boot is a new row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Literal
from uuid import UUID

from sqlalchemy import func, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import PAGE_ROWS, fetch_all, fetch_one, page_size, table_of
from vlmhyperbench.db.tables import DeviceRow, QuarantineRow, WorkerRow
from vlmhyperbench.db.views import DeviceView, QuarantineView, WorkerView, view_of
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.steps import WorkerKind

_WORKER = table_of(WorkerRow)
_DEVICE = table_of(DeviceRow)
_RECORD = table_of(QuarantineRow)
_PRESENT = ("LIVE", "DRAINING")

WorkerState = Literal["LIVE", "DRAINING", "GONE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDevice:
    """A GPU, a MIG slice of one, or a CPU slot, that a worker offers."""

    no: int
    kind: Literal["gpu", "cpu"]
    uuid: str
    name: str
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReading:
    """The use of a device at one moment; None where it is not reported."""

    no: int
    used_bytes: int | None
    util_percent: float | None


async def register(
    session: AsyncSession,
    *,
    worker_id: UUID,
    name: str,
    kind: WorkerKind,
    queue: str,
    host: str,
    boot_id: UUID,
    pid: int,
    slots: int,
    version: str,
    devices: Sequence[NewDevice] = (),
    ground: Ground | None = None,
    is_declared: bool = False,
) -> WorkerView:
    """Add a LIVE worker with its devices; earlier boots with the same name, kind and host become GONE.

    A device that is quarantined stays so, whichever worker offers it.
    """
    await session.execute(
        update(_WORKER)
        .where(_WORKER.c.name == name, _WORKER.c.kind == kind, _WORKER.c.host == host, _WORKER.c.state.in_(_PRESENT))
        .values(state="GONE")
    )
    added = await session.execute(
        insert(_WORKER)
        .values(
            id=worker_id,
            name=name,
            kind=kind,
            queue=queue,
            host=host,
            boot_id=boot_id,
            pid=pid,
            state="LIVE",
            slots=slots,
            version=version,
            resident=[],
            machine_id=ground.machine if ground else None,
            cores=sorted(ground.cores) if ground else None,
            is_declared=is_declared,
        )
        .returning(*_WORKER.c)
    )
    if devices:
        await session.execute(insert(_DEVICE), [{"worker_id": worker_id, **asdict(device)} for device in devices])
        await session.execute(text(_STAY_QUARANTINED), {"worker": worker_id})
    return view_of(WorkerView, added.one())


async def holder_elsewhere(
    session: AsyncSession, uuids: Sequence[str], *, host: str, stale_s: float
) -> WorkerView | None:
    """Return a worker of another host that has one of these GPUs and was seen lately.

    Workers that register look one after another, until the end of their transactions.
    """
    await session.execute(text("SELECT pg_advisory_xact_lock(hashtext('devices of workers'), 0)"))
    statement = (
        select(_WORKER)
        .join(_DEVICE, _DEVICE.c.worker_id == _WORKER.c.id)
        .where(_DEVICE.c.uuid.in_(uuids), _WORKER.c.host != host, _WORKER.c.state.in_(_PRESENT))
        .where(_WORKER.c.last_seen_at > func.now() - timedelta(seconds=stale_s))
        .limit(1)
    )
    return await fetch_one(session, WorkerView, statement)


async def earlier_boots(session: AsyncSession, worker_id: UUID) -> list[UUID]:
    """Read the ids of earlier boots of a worker: those with the same name, kind and host."""
    own, other = _WORKER.alias("own"), _WORKER
    result = await session.execute(
        select(other.c.id)
        .join(own, (own.c.name == other.c.name) & (own.c.kind == other.c.kind) & (own.c.host == other.c.host))
        .where(own.c.id == worker_id, other.c.id != own.c.id, other.c.state == "GONE")
    )
    return list(result.scalars())


async def heartbeat(session: AsyncSession, worker_id: UUID) -> WorkerState | None:
    """Record that a worker is alive, by the database's clock, and return its state; None if it is unknown."""
    updated = await session.execute(
        update(_WORKER).where(_WORKER.c.id == worker_id).values(last_seen_at=func.now()).returning(_WORKER.c.state)
    )
    state: WorkerState | None = updated.scalar_one_or_none()
    return state


async def record_readings(session: AsyncSession, worker_id: UUID, readings: Sequence[DeviceReading]) -> None:
    """Record the use of a worker's devices, at the database's time."""
    for reading in readings:
        await session.execute(
            update(_DEVICE)
            .where(_DEVICE.c.worker_id == worker_id, _DEVICE.c.no == reading.no)
            .values(used_bytes=reading.used_bytes, util_percent=reading.util_percent, read_at=func.now())
        )


async def set_state(session: AsyncSession, worker_id: UUID, state: WorkerState) -> bool:
    """Change a worker's state and return whether it has changed; a worker that is GONE stays GONE."""
    updated = await session.execute(
        update(_WORKER)
        .where(_WORKER.c.id == worker_id, _WORKER.c.state.not_in({"GONE", state}))
        .values(state=state)
        .returning(_WORKER.c.id)
    )
    return updated.one_or_none() is not None


async def forget(session: AsyncSession, *, after_s: float) -> list[WorkerView]:
    """Let the workers be GONE that were not seen for so long and have no job, and return them."""
    return [view_of(WorkerView, row) for row in await session.execute(text(_FORGET), {"after": after_s})]


async def get(session: AsyncSession, worker_id: UUID) -> WorkerView | None:
    """Read a worker."""
    return await fetch_one(session, WorkerView, select(_WORKER).where(_WORKER.c.id == worker_id))


async def page(
    session: AsyncSession, *, after: tuple[str, UUID] | None = None, limit: int = 100, is_present: bool = True
) -> list[WorkerView]:
    """Read a page of workers by (name, id): the present ones, or all."""
    statement = select(_WORKER)
    if is_present:
        statement = statement.where(_WORKER.c.state.in_(_PRESENT))
    if after is not None:
        name, worker_id = after
        statement = statement.where((_WORKER.c.name > name) | ((_WORKER.c.name == name) & (_WORKER.c.id > worker_id)))
    return await fetch_all(
        session, WorkerView, statement.order_by(_WORKER.c.name, _WORKER.c.id).limit(page_size(limit))
    )


async def devices_of(session: AsyncSession, worker_ids: Sequence[UUID]) -> list[DeviceView]:
    """Read the devices of these workers, by worker and number."""
    statement = select(_DEVICE).where(_DEVICE.c.worker_id.in_(worker_ids)).order_by(_DEVICE.c.worker_id, _DEVICE.c.no)
    return await fetch_all(session, DeviceView, statement)


async def quarantine(session: AsyncSession, worker_id: UUID, *, uuid: str, reason: str) -> bool:
    """Quarantine a device of a worker, and return whether it was not quarantined before."""
    values = {"worker": worker_id, "uuid": uuid, "reason": reason}
    return (await session.execute(text(_QUARANTINE), values)).first() is not None


async def quarantines(session: AsyncSession, *, is_open: bool = True) -> list[QuarantineView]:
    """Read which devices are in quarantine now, or the newest records of all quarantines."""
    statement = select(_RECORD).order_by(_RECORD.c.since.desc(), _RECORD.c.id).limit(PAGE_ROWS)
    return await fetch_all(
        session, QuarantineView, statement.where(_RECORD.c.released_at.is_(None)) if is_open else statement
    )


async def release_device(session: AsyncSession, uuid: str, *, by: str) -> bool | None:
    """Let a quarantined device get jobs again; False if it was not quarantined, None if no worker has offered it."""
    if (await session.execute(text(_RELEASE), {"uuid": uuid, "by": by})).first() is not None:
        return True
    known = await session.execute(select(_DEVICE.c.uuid).where(_DEVICE.c.uuid == uuid).limit(1))
    return None if known.first() is None else False


_FORGET = """
UPDATE worker w SET state = 'GONE'
WHERE w.state IN ('LIVE', 'DRAINING') AND w.last_seen_at < now() - make_interval(secs => :after)
  AND NOT EXISTS (SELECT FROM job j WHERE j.worker_id = w.id AND j.state IN ('ASSIGNED', 'RUNNING'))
RETURNING *
"""

# A device that two workers offer is in quarantine once.
_QUARANTINE = """
WITH broken AS (
  UPDATE device SET state = 'BROKEN', state_reason = :reason, state_since = now(), state_by = w.name
  FROM worker w
  WHERE w.id = :worker AND device.worker_id = w.id AND device.uuid = :uuid AND device.state = 'OK'
  RETURNING device.uuid, device.name AS device_name, w.name, w.host
), recorded AS (
  INSERT INTO quarantine (device, device_name, worker, host, reason)
  SELECT uuid, device_name, name, host, :reason FROM broken ON CONFLICT DO NOTHING
)
SELECT uuid FROM broken
"""

_RELEASE = """
WITH released AS (
  UPDATE device SET state = 'OK', state_reason = NULL, state_by = :by, state_since = now()
  WHERE uuid = :uuid AND state = 'BROKEN' RETURNING uuid
), recorded AS (
  UPDATE quarantine SET released_by = :by, released_at = now() WHERE device = :uuid AND released_at IS NULL
)
SELECT uuid FROM released
"""

_STAY_QUARANTINED = """
UPDATE device own SET state = earlier.state, state_reason = earlier.state_reason, state_by = earlier.state_by,
                      state_since = earlier.state_since
FROM device earlier
WHERE own.worker_id = :worker AND earlier.uuid = own.uuid AND earlier.worker_id <> own.worker_id
  AND earlier.state = 'BROKEN'
"""
