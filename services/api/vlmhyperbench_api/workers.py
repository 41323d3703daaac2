"""`/workers`: the workers with their devices, what is reserved and drained of them, and the release from quarantine."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict

from vlmhyperbench.db import capacity, jobs
from vlmhyperbench.db import workers as rows
from vlmhyperbench.db.views import CurrentJobView, DeviceView, WorkerView
from vlmhyperbench.domain.placement import DeviceNow, WorkerNow
from vlmhyperbench.errors import NotFound
from vlmhyperbench.logs import get_logger
from vlmhyperbench.wire.base import Label, Page
from vlmhyperbench.wire.workers import CurrentJob, Device, DeviceRelease, LoadedTarget, Quarantine, Worker
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import (
    CursorText,
    PageLimit,
    RuntimeOf,
    Session,
    TargetNamesOf,
    read_cursor,
    write_cursor,
)
from vlmhyperbench_api.security import Principal, requires

_LOG = get_logger(__name__)
router = APIRouter(prefix="/workers", tags=["workers"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("worker:read")]
Writer = Annotated[Principal, requires("worker:write")]
DeviceUuid = Annotated[Label, Path(description="UUID of the device, as the list of workers shows it.")]


class _Position(BaseModel):
    """Position of the last worker of a page."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Label
    id: UUID


@router.get("")
async def list_workers(
    principal: Reader,
    session: Session,
    runtime: RuntimeOf,
    target_names: TargetNamesOf,
    include_gone: bool = False,
    limit: PageLimit = 100,
    cursor: CursorText = None,
) -> Page[Worker]:
    """List workers by name: the present ones, or also those that are gone."""
    after = read_cursor(cursor, _Position)
    page = await rows.page(
        session, after=(after.name, after.id) if after else None, limit=limit, is_present=not include_gone
    )
    devices = await rows.devices_of(session, [worker.id for worker in page])
    seen = await capacity.workers(session, stale_s=runtime.settings.timers.stale_worker_s)
    known = {worker.id: worker for worker in seen.known}
    resident = {digest for worker in page for digest in worker.resident}
    held = await jobs.held_by(session, [worker.id for worker in page], project_id=principal.project_id)
    names = await target_names.of(session, resident, project_id=principal.project_id)
    stale_before = datetime.now(UTC) - timedelta(seconds=runtime.settings.timers.stale_worker_s)
    last = page[-1] if len(page) == limit else None
    return Page[Worker](
        items=[_shown(worker, devices, stale_before, known.get(worker.id), held, names) for worker in page],
        next=write_cursor(_Position(name=last.name, id=last.id)) if last else None,
    )


@router.get("/quarantines")
async def list_quarantines(_: Reader, session: Session, include_released: bool = False) -> Page[Quarantine]:
    """List the devices in quarantine, with the fault and since when, or also those that were, newest first."""
    views = await rows.quarantines(session, is_open=not include_released)
    return Page[Quarantine](items=[Quarantine.model_validate(view, from_attributes=True) for view in views], next=None)


@router.post("/devices/{uuid}/release")
async def release_device(uuid: DeviceUuid, principal: Writer, runtime: RuntimeOf) -> DeviceRelease:
    """Let a device that is in quarantine get jobs again."""
    async with runtime.database.transaction() as session:
        was_broken = await rows.release_device(session, uuid, by=principal.name)
    if was_broken is None:
        raise NotFound(f"No worker has a device {uuid!r}.", cure="List them: vlmhyperbench workers list.")
    if was_broken:
        _LOG.info("device.released", device=uuid, by=principal.name)
        await runtime.bus.push_wake()
    return DeviceRelease(uuid=uuid, was_broken=was_broken)


def _shown(
    worker: WorkerView,
    devices: list[DeviceView],
    stale_before: datetime,
    now: WorkerNow | None,
    held: list[CurrentJobView],
    names: Mapping[str, str],
) -> Worker:
    load = {device.no: device for device in now.devices} if now is not None else {}
    return Worker(
        id=worker.id,
        name=worker.name,
        kind=worker.kind,
        queue=worker.queue,
        host=worker.host,
        pid=worker.pid,
        state=worker.state,
        is_stale=worker.last_seen_at < stale_before,
        slots=worker.slots,
        version=worker.version,
        resident=[LoadedTarget(digest=digest, name=names.get(digest)) for digest in worker.resident],
        jobs=[CurrentJob.model_validate(job, from_attributes=True) for job in held if job.worker_id == worker.id],
        devices=[_device(device, load.get(device.no)) for device in devices if device.worker_id == worker.id],
        drained=now.drained if now is not None else None,
        registered_at=worker.registered_at,
        last_seen_at=worker.last_seen_at,
        is_declared=worker.is_declared,
    )


def _device(device: DeviceView, now: DeviceNow | None) -> Device:
    shown = Device.model_validate(device, from_attributes=True)
    if now is None:
        return shown
    return shown.model_copy(update={"reserved_bytes": now.reserved_bytes, "jobs": now.jobs, "drained": now.drained})
