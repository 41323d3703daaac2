"""The supervisor: one long-lived process that registers a worker, finds its jobs, claims and runs them, and drains.

It never forks work into itself: CPU work runs in spawned children, models in engines behind a gateway. Only the
database decides what is ours; a ring merely says "look now".
"""

from __future__ import annotations

import asyncio
import os
import platform
import random
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import distributions, version
from typing import Literal, TypeAlias
from uuid import UUID, uuid4

from vlmhyperbench.db import claims, finishing, workers
from vlmhyperbench.db.claims import Assigned, Claimant
from vlmhyperbench.domain.outcomes import Failed
from vlmhyperbench.domain.steps import StepKind, WorkerKind
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.logs import get_logger
from vlmhyperbench.queues.contracts import queue_of
from vlmhyperbench.runtime import Runtime, open_runtime
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.children import CpuChildren, forget_credentials
from vlmhyperbench.worker.claim_runner import ClaimRunner
from vlmhyperbench.worker.claims import RETRY_S, ClaimedJob, Handler, WorkerContext
from vlmhyperbench.worker.devices import DeviceInfo, lock_devices
from vlmhyperbench.worker.ground import ground
from vlmhyperbench.worker.listening import keep_doorbell, open_door
from vlmhyperbench.worker.orphans import kill_orphans, label
from vlmhyperbench.worker.presence import forget, has_died, present
from vlmhyperbench.worker.signals import open_stop

Hook: TypeAlias = Callable[[WorkerContext], Awaitable[None]]

_LOG = get_logger(__name__)
WORKER_DIED = "worker_died"
"""Code of a claim whose process was found dead by the next boot of its worker."""
_DEAF_POLL_S = 0.5
"""How often a worker looks while its doorbell still starts, which takes seconds."""


async def run_worker(
    settings: Settings,
    *,
    kind: WorkerKind,
    handlers: Mapping[StepKind, Handler],
    devices: Sequence[DeviceInfo] = (),
    slots: int = 1,
    children: int | None = None,
    on_start: Hook | None = None,
    on_stop: Hook | None = None,
) -> None:
    """Run a worker until SIGTERM or SIGINT, then drain it.

    `slots` is how many jobs it takes at once, `children` how many processes compute for them. `on_start` is awaited
    once the worker is registered, `on_stop` when its last job has ended.
    """
    forget_credentials()
    boot_id = uuid4()
    mark = label(settings.home, kind, settings.worker_name, boot_id)
    for pid in kill_orphans(mark):
        _LOG.warning("worker.orphan_killed", pid=pid)
    async with open_runtime(settings, name=f"{kind}-worker") as runtime, open_stop() as stop:
        context = WorkerContext(
            worker_id=uuid4(),
            boot_id=boot_id,
            name=settings.worker_name,
            runtime=runtime,
            settings=settings,
            label=mark,
            lock_fds=tuple(await lock_devices(settings.home / "locks", devices)),
        )
        worker = Worker(context, kind=kind, handlers=handlers, devices=devices, slots=slots, children=children)
        with present(settings.home, context.worker_id):
            await worker.register()
            if on_start is not None:
                await on_start(context)
            try:
                await worker.serve(stop)
            finally:
                if on_stop is not None:
                    await on_stop(context)
                await worker.leave()


class Worker:
    """What the supervisor knows of itself while it runs."""

    def __init__(
        self,
        context: WorkerContext,
        *,
        kind: WorkerKind,
        handlers: Mapping[StepKind, Handler],
        devices: Sequence[DeviceInfo],
        slots: int,
        children: int | None = None,
    ) -> None:
        self._context = context
        self._runtime: Runtime = context.runtime
        self._timers = context.settings.timers
        self._kind = kind
        self._queue = queue_of(kind, context.name)
        self._handlers = handlers
        self._devices = devices
        self._slots = slots
        self._cpu = CpuChildren(max_running=children, limit_s=self._timers.compute_s)
        self._look = asyncio.Event()
        self._hears = False
        self._attempts: set[UUID] = set()
        self._runners: dict[UUID, ClaimRunner] = {}
        self._is_leaving = False
        self._claimant = Claimant(
            worker_id=context.worker_id,
            boot_id=context.boot_id,
            host=socket.gethostname(),
            machine={"system": platform.system(), "kernel": platform.release(), "cpu_threads": os.cpu_count()},
            packages={item.name: item.version for item in distributions()},
            ground=ground(devices),
        )

    async def register(self) -> None:
        """Write this boot's row and end what died with an earlier one; waits while the database is away."""
        while not await self._try_register():  # noqa: ASYNC110 - the database rings no bell
            await asyncio.sleep(self._timers.poll_s)
        with suppress(Unavailable):  # what stays is ended by its lease
            await self._end_claims_of_the_dead()
        _LOG.info("worker.registered", worker_id=str(self._context.worker_id), kind=self._kind)
        await self._wake()

    async def _try_register(self) -> bool:
        try:
            async with self._runtime.database.transaction() as session:
                await workers.register(
                    session,
                    worker_id=self._context.worker_id,
                    name=self._context.name,
                    kind=self._kind,
                    queue=self._queue,
                    host=self._claimant.host,
                    boot_id=self._context.boot_id,
                    pid=os.getpid(),
                    slots=self._slots,
                    version=version("vlmhyperbench"),
                    devices=[workers.NewDevice(**asdict(device)) for device in self._devices],
                    ground=self._claimant.ground,
                )
        except Unavailable as error:
            _LOG.warning("worker.waits_for_database", reason=str(error))
            return False
        return True

    async def _end_claims_of_the_dead(self) -> None:
        """End the claims of this worker's earlier boots whose processes are dead for certain, without their leases."""
        home = self._context.settings.home
        async with self._runtime.database.transaction() as session:
            earlier = await workers.earlier_boots(session, self._context.worker_id)
            held = await claims.running(session, earlier)
        dead = [worker_id for worker_id in earlier if has_died(home, worker_id)]
        for claim in held:
            if claim.worker_id not in dead:
                continue
            async with self._runtime.database.transaction() as session:
                finished = await finishing.finish(
                    session,
                    job_id=claim.job_id,
                    claim_id=claim.claim_id,
                    outcome=Failed(code=WORKER_DIED, message="The worker that held the job died."),
                    draw=random.random(),  # noqa: S311 - spreads retries only
                )
            if finished is not None:
                _LOG.warning("worker.ended_claim_of_the_dead", job_id=str(claim.job_id), worker_id=str(claim.worker_id))
                await self._runtime.bus.publish(*finished.mark)
        for worker_id in dead:
            forget(home, worker_id)

    async def serve(self, stop: asyncio.Event) -> None:
        """Take and run jobs until `stop` is set and the last one has ended."""
        folder, name = self._context.settings.home / "run", f"{self._kind}-{self._context.boot_id.hex[:8]}"
        async with open_door(folder, name, self._rung) as door, asyncio.TaskGroup() as group:
            redis_url = self._context.settings.redis_url.get_secret_value()
            loops = [
                group.create_task(keep_doorbell(redis_url, self._queue, door, self._context.label)),
                group.create_task(self._beat(stop)),
                group.create_task(self._poll(group)),
            ]
            await stop.wait()
            await self._drain()
            for loop in loops:
                loop.cancel()
        self._cpu.close()

    async def leave(self) -> None:
        """Say that this boot is gone."""
        await self._set_state("GONE")

    def _rung(self) -> None:
        self._hears = True
        self._look.set()

    async def _poll(self, group: asyncio.TaskGroup) -> None:
        """Look for own assignments: after a ring, after a job has ended, and every few seconds anyway."""
        while True:
            self._look.clear()
            if not self._is_leaving and len(self._attempts) < self._slots:
                with suppress(Unavailable):
                    async with self._runtime.database.transaction() as session:
                        given = await claims.assigned(session, self._context.worker_id)
                    for job in [job for job in given if job.attempt_id not in self._attempts]:
                        if len(self._attempts) < self._slots and not self._is_leaving:
                            self._attempts.add(job.attempt_id)
                            group.create_task(self._serve(job))
            pause_s = self._timers.poll_s if self._hears else min(_DEAF_POLL_S, self._timers.poll_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s * random.uniform(0.8, 1.0)):  # noqa: S311 - spreads load only
                    await self._look.wait()

    async def _serve(self, given: Assigned) -> None:
        try:
            runner = await self._claim(given)
            if runner is not None:
                self._runners[given.attempt_id] = runner
                if self._is_leaving:
                    runner.job.draining.set()
                finished = await runner.run()
                if finished is not None:
                    await self._runtime.bus.publish(*finished.mark)
                    await self._wake()
        finally:
            self._attempts.discard(given.attempt_id)
            self._runners.pop(given.attempt_id, None)
            self._look.set()

    async def _claim(self, given: Assigned) -> ClaimRunner | None:
        """Take the job; with one claim id for every try, so that an answer that was lost does no harm."""
        claim_id = uuid4()
        give_up_at = time.monotonic() + self._timers.self_fence_s
        while time.monotonic() < give_up_at:
            sent_at = time.monotonic()
            try:
                async with self._runtime.database.transaction() as session:
                    taken = await claims.claim(
                        session, given, claim_id=claim_id, claimant=self._claimant, lease_s=self._timers.lease_s
                    )
            except Unavailable:
                await asyncio.sleep(RETRY_S)
                continue
            if taken is None:
                return None
            job, mark = taken
            await self._runtime.bus.publish(*mark)
            _LOG.info("job.claimed", job_id=str(job.id), kind=job.kind, claim_id=str(claim_id))
            claimed = ClaimedJob(job, claim_id=claim_id, context=self._context, cpu=self._cpu)
            return ClaimRunner(claimed, self._handlers[job.kind], sent_at=sent_at)
        return None

    async def _beat(self, stop: asyncio.Event) -> None:
        """Keep the worker's row fresh; a worker that was replaced by a newer boot of its name stops."""
        while True:
            await asyncio.sleep(self._timers.heartbeat_s * random.uniform(0.8, 1.2))  # noqa: S311 - spreads load only
            with suppress(Unavailable):
                async with self._runtime.database.transaction() as session:
                    state = await workers.heartbeat(session, self._context.worker_id)
                if state not in {"LIVE", "DRAINING"}:
                    _LOG.warning("worker.replaced", worker_id=str(self._context.worker_id))
                    stop.set()

    async def _drain(self) -> None:
        """Take nothing more, let the jobs finish their chunk, and end what does not stop in time."""
        self._is_leaving = True
        _LOG.info("worker.drains", jobs=len(self._runners))
        await self._set_state("DRAINING")
        for runner in self._runners.values():
            runner.job.draining.set()
        for limit_s in (self._timers.drain_s, self._timers.cancel_term_s + self._timers.kill_s):
            with suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    while self._attempts:
                        self._look.clear()
                        await self._look.wait()
            for runner in self._runners.values():
                runner.preempt()

    async def _set_state(self, state: Literal["DRAINING", "GONE"]) -> None:
        with suppress(Unavailable):
            async with self._runtime.database.transaction() as session:
                await workers.set_state(session, self._context.worker_id, state)
            await self._wake()

    async def _wake(self) -> None:
        await self._runtime.bus.push_wake()
