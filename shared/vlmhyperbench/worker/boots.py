"""A boot of a worker registers itself, and ends what its dead predecessors on this machine have left."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from uuid import UUID

from vlmhyperbench.db import claims, finishing, traces, workers
from vlmhyperbench.db.claims import Claimant
from vlmhyperbench.db.engine import DATABASE_REFUSED, AsyncSession
from vlmhyperbench.db.schema import check_schema
from vlmhyperbench.domain.outcomes import Failed
from vlmhyperbench.domain.steps import WorkerKind
from vlmhyperbench.errors import Conflict, Unavailable
from vlmhyperbench.logs import get_logger
from vlmhyperbench.monitoring.tracing import record
from vlmhyperbench.queues.contracts import queue_of
from vlmhyperbench.worker.claims import WorkerContext
from vlmhyperbench.worker.device_locks import IN_USE
from vlmhyperbench.worker.device_watch import offered
from vlmhyperbench.worker.devices import DeviceInfo
from vlmhyperbench.worker.presence import has_died, remove_presence

_LOG = get_logger(__name__)
WORKER_DIED = "worker_died"
"""Code of the failure of a claim whose worker process had died when its successor started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """What a worker tells the database when it starts."""

    context: WorkerContext
    claimant: Claimant
    kind: WorkerKind
    devices: Sequence[DeviceInfo]
    slots: int
    _seen: dict[UUID, datetime] = field(default_factory=dict)
    """When workers that have the same GPUs had been seen at the first look."""

    async def register(self) -> bool:
        """Register this boot; False if the database does not answer, or a worker elsewhere may still use its GPUs.

        Raises:
            Conflict: a worker of another host that is alive has one of them (code `device_in_use`).
            NotReady: its schema is older than that of this version (code `schema_differs`).
            Unavailable: it refuses the account that the settings name.
        """
        try:
            await check_schema(self.context.runtime.database, may_be_newer=True)
            async with self.context.runtime.database.transaction() as session:
                if not await self._has_devices_alone(session):
                    return False
                await workers.register(
                    session,
                    worker_id=self.context.worker_id,
                    name=self.context.name,
                    kind=self.kind,
                    queue=queue_of(self.kind, self.context.name),
                    host=self.claimant.host,
                    boot_id=self.context.boot_id,
                    pid=os.getpid(),
                    slots=self.slots,
                    version=version("vlmhyperbench"),
                    devices=offered(self.devices),
                    ground=self.claimant.ground,
                    is_declared=any(device.is_declared for device in self.devices),
                )
        except Unavailable as error:
            if error.code == DATABASE_REFUSED and not self.context.settings.server_url:
                raise
            _LOG.warning("worker.waits_for_database", reason=error.message)
            return False
        return True

    async def _has_devices_alone(self, session: AsyncSession) -> bool:
        """Return whether no worker elsewhere has these GPUs, whose locks only one host or container sees.

        One that is killed is taken for alive until it is stale; one that is seen again meanwhile is alive.
        """
        gpus = [device.uuid for device in self.devices if device.kind == "gpu" and not device.is_declared]
        stale_s = self.context.settings.timers.stale_worker_s
        if not gpus:
            return True
        holder = await workers.holder_elsewhere(session, gpus, host=self.claimant.host, stale_s=stale_s)
        if holder is None:
            return True
        first = self._seen.setdefault(holder.id, holder.last_seen_at)
        if holder.state == "LIVE" and holder.last_seen_at > first:
            raise Conflict(
                f"The devices of this worker ({', '.join(gpus)}) are used by the worker {holder.name!r} on "
                f"{holder.host}.",
                cure="Stop that worker, or give this one other devices with VLMHB_DEVICES.",
                code=IN_USE,
            )
        _LOG.info("worker.waits_for_devices", devices=gpus, holder=holder.name, host=holder.host)
        return False

    async def end_claims_of_the_dead(self) -> None:
        """End the claims of earlier boots of this worker that have died for certain, before their leases expire.

        Raises:
            Unavailable: the database does not answer; the claims end when their leases expire.
        """
        home, runtime = self.context.settings.home, self.context.runtime
        async with runtime.database.transaction() as session:
            earlier = await workers.earlier_boots(session, self.context.worker_id)
            running = await claims.running(session, earlier)
        dead = [worker_id for worker_id in earlier if has_died(home, worker_id)]
        for claim in (claim for claim in running if claim.worker_id in dead):
            async with runtime.database.transaction() as session:
                lost = await traces.open_claim(session, claim.job_id)
                finished = await finishing.finish(
                    session,
                    job_id=claim.job_id,
                    claim_id=claim.claim_id,
                    outcome=Failed(code=WORKER_DIED, message="The worker that held the job died."),
                    draw=random.random(),  # noqa: S311 - spreads retries only
                )
            if finished is not None:
                if lost is not None:
                    record(f"job {lost.kind}", lost.context, start_ns=lost.start_ns, error=WORKER_DIED)
                _LOG.warning("worker.ended_claim_of_the_dead", job_id=str(claim.job_id), worker_id=str(claim.worker_id))
                await runtime.bus.publish(*finished.mark)
        for worker_id in dead:
            remove_presence(home, worker_id)
        await runtime.bus.push_wake()
