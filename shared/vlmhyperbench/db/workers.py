"""Workers and their devices: registered at boot, seen by their heartbeats. A new boot is a new row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from sqlalchemy import func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import fetch_all, fetch_one, page_size, table_of
from vlmhyperbench.db.tables import DeviceRow, WorkerRow
from vlmhyperbench.db.views import DeviceView, WorkerView
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.steps import WorkerKind

_WORKER = table_of(WorkerRow)
_DEVICE = table_of(DeviceRow)
_PRESENT = ("LIVE", "DRAINING")

WorkerState = Literal["LIVE", "DRAINING", "GONE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDevice:
    """A GPU, or the one CPU slot, that a worker offers."""

    no: int
    kind: Literal["gpu", "cpu"]
    uuid: str
    name: str
    memory_bytes: int


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
) -> WorkerView:
    """Add a LIVE worker with its devices; earlier boots of the same name, kind and host are GONE from here on."""
    await session.execute(
        update(_WORKER)
        .where(_WORKER.c.name == name, _WORKER.c.kind == kind, _WORKER.c.host == host, _WORKER.c.state.in_(_PRESENT))
        .values(state="GONE")
    )
    await session.execute(
        insert(_WORKER).values(
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
        )
    )
    if devices:
        await session.execute(
            insert(_DEVICE),
            [
                {
                    "worker_id": worker_id,
                    "no": device.no,
                    "kind": device.kind,
                    "uuid": device.uuid,
                    "name": device.name,
                    "memory_bytes": device.memory_bytes,
                }
                for device in devices
            ],
        )
    added = await get(session, worker_id)
    assert added is not None  # noqa: S101 - this transaction has just written it
    return added


async def earlier_boots(session: AsyncSession, worker_id: UUID) -> list[UUID]:
    """Read which workers had the name, kind and host of this one before it."""
    own, other = _WORKER.alias("own"), _WORKER
    found = await session.execute(
        select(other.c.id)
        .join(own, (own.c.name == other.c.name) & (own.c.kind == other.c.kind) & (own.c.host == other.c.host))
        .where(own.c.id == worker_id, other.c.id != own.c.id, other.c.state == "GONE")
    )
    return list(found.scalars())


async def heartbeat(session: AsyncSession, worker_id: UUID) -> WorkerState | None:
    """Say that a worker lives, by the database's clock, and return its state; None where it is unknown."""
    found = await session.execute(
        update(_WORKER).where(_WORKER.c.id == worker_id).values(last_seen_at=func.now()).returning(_WORKER.c.state)
    )
    state: WorkerState | None = found.scalar_one_or_none()
    return state


async def set_state(session: AsyncSession, worker_id: UUID, state: WorkerState) -> bool:
    """Change a worker's state, and say whether it was another one; a worker that is GONE stays so."""
    found = await session.execute(
        update(_WORKER)
        .where(_WORKER.c.id == worker_id, _WORKER.c.state.not_in({"GONE", state}))
        .values(state=state)
        .returning(_WORKER.c.id)
    )
    return found.one_or_none() is not None


async def get(session: AsyncSession, worker_id: UUID) -> WorkerView | None:
    """Read a worker."""
    return await fetch_one(session, WorkerView, select(_WORKER).where(_WORKER.c.id == worker_id))


async def page(
    session: AsyncSession, *, after: tuple[str, UUID] | None = None, limit: int = 100, is_present: bool = True
) -> list[WorkerView]:
    """Read a page of workers by (name, id): those that are present, or all that ever were."""
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
    """Read the devices of some workers, worker by worker, in order."""
    statement = select(_DEVICE).where(_DEVICE.c.worker_id.in_(worker_ids)).order_by(_DEVICE.c.worker_id, _DEVICE.c.no)
    return await fetch_all(session, DeviceView, statement)
