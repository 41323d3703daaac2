"""The supervisor of a worker: a long-lived process that registers the worker, claims and runs its jobs, and drains.

It does no work in its own process: CPU work runs in spawned children, models run in engines behind a gateway. Only the
database determines which jobs it has; a ring only makes it look at once.
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
from importlib.metadata import distributions
from typing import Literal, TypeAlias
from uuid import UUID, uuid4

from vlmhyperbench.db import claims, traces, workers
from vlmhyperbench.db.claims import Assigned, Claimant
from vlmhyperbench.db.refusals import is_refused, refusal
from vlmhyperbench.domain.outcomes import Failed
from vlmhyperbench.domain.steps import StepKind, WorkerKind
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.logs import bind, get_logger
from vlmhyperbench.monitoring.recording import count, set_gauge
from vlmhyperbench.queues.contracts import queue_of
from vlmhyperbench.runtime import Runtime, open_runtime
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.boots import Boot
from vlmhyperbench.worker.children import CpuChildren, forget_credentials
from vlmhyperbench.worker.claim_runner import ClaimRunner
from vlmhyperbench.worker.claims import RETRY_S, ClaimedJob, Handler, WorkerContext
from vlmhyperbench.worker.device_locks import DeviceLocks, lock_devices
from vlmhyperbench.worker.device_watch import DeviceWatch
from vlmhyperbench.worker.devices import DeviceInfo
from vlmhyperbench.worker.ground import ground
from vlmhyperbench.worker.listening import open_ring_socket, run_doorbell
from vlmhyperbench.worker.orphans import kill_orphans, label
from vlmhyperbench.worker.presence import hold_presence
from vlmhyperbench.worker.reachability import refuse_unusable, warn_of_clock
from vlmhyperbench.worker.signals import open_stop

Hook: TypeAlias = Callable[[WorkerContext], Awaitable[None]]

_LOG = get_logger(__name__)
_FIRST_POLL_S, _STARTING_POLL_S = 0.05, 0.5
"""Polling interval until the doorbell listens, which takes seconds: the first one, which doubles, and the longest."""


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

    `slots` is the maximum number of jobs at a time, `children` that of their CPU processes. `on_start` is awaited once
    the worker is registered, `on_stop` when its last job has ended.

    Raises:
        Conflict: another worker holds one of the devices (code `device_in_use`).
        Denied: the database refuses the account of a worker that has joined (code `account_refused`), or S3 its keys.
        InvalidInput: there is no such bucket.
        NotReady: no stack is known, or its database has an older schema.
        Unavailable: the storage cannot be used, or the database refuses the account of the settings.
    """
    forget_credentials()
    boot_id = uuid4()
    own_label = label(settings.home, kind, settings.worker_name, boot_id)
    for pid in kill_orphans(own_label):
        _LOG.warning("worker.orphan_killed", pid=pid)
    async with open_runtime(settings, name=f"{kind}-worker") as runtime, open_stop() as stop:
        await refuse_unusable(runtime.storage)
        locks = await lock_devices(settings.home, settings.worker_name, devices)
        context = WorkerContext(
            worker_id=uuid4(),
            boot_id=boot_id,
            name=settings.worker_name,
            runtime=runtime,
            settings=settings,
            label=own_label,
            lock_fds=locks.descriptors,
        )
        worker = Worker(
            context, kind=kind, handlers=handlers, devices=devices, locks=locks, slots=slots, children=children
        )
        with hold_presence(settings.home, context.worker_id):
            if not await worker.register(stop):
                return
            if on_start is not None:
                await on_start(context)
            try:
                await worker.serve(stop)
            finally:
                if on_stop is not None:
                    await on_stop(context)
                await worker.leave()
            worker.check_access()


class Worker:
    """The state of a running supervisor."""

    def __init__(
        self,
        context: WorkerContext,
        *,
        kind: WorkerKind,
        handlers: Mapping[StepKind, Handler],
        devices: Sequence[DeviceInfo],
        locks: DeviceLocks,
        slots: int,
        children: int | None = None,
    ) -> None:
        self._context = context
        self._runtime: Runtime = context.runtime
        self._timers = context.settings.timers
        self._kind = kind
        self._queue = queue_of(kind, context.name)
        self._handlers = handlers
        self._locks = locks
        self._slots = slots
        self._cpu = CpuChildren(max_running=children, limit_s=self._timers.compute_s)
        self._is_due = asyncio.Event()
        self._has_rung = False
        self._look_cause = "poll"
        self._attempts: set[UUID] = set()
        self._runners: dict[UUID, ClaimRunner] = {}
        self._is_leaving = False
        self._is_refused = False
        self._database_url = context.settings.database_url.get_secret_value()
        self._busy_at = time.monotonic()
        """When this worker last had a job; at first, when it began."""
        self._claimant = Claimant(
            worker_id=context.worker_id,
            boot_id=context.boot_id,
            host=socket.gethostname(),
            machine={"system": platform.system(), "kernel": platform.release(), "cpu_threads": os.cpu_count()},
            packages={item.name: item.version for item in distributions()},
            ground=ground(devices),
        )
        self._boot = Boot(context=context, claimant=self._claimant, kind=kind, devices=devices, slots=slots)
        self._watch = DeviceWatch(context, devices, self._lose_device)

    async def register(self, stop: asyncio.Event) -> bool:
        """Register this boot and end the claims of dead boots, once the database answers; False if stopped first.

        Raises:
            Denied: the database refuses the account of a worker that has joined.
            Unavailable: it refuses the account that the settings name.
        """
        while not await self._boot.register():
            await self._ask_for_refusal()
            self.check_access()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timers.poll_s):
                    await stop.wait()
            if stop.is_set():
                return False
        _LOG.info("worker.registered", worker_id=str(self._context.worker_id), kind=self._kind)
        await self._wake()  # at once: the scheduler assigns while this worker goes on
        with suppress(Unavailable):  # otherwise these claims end when their leases expire
            await self._boot.end_claims_of_the_dead()
        with suppress(Unavailable):  # it is only a warning
            await warn_of_clock(self._runtime.database)
        return True

    async def serve(self, stop: asyncio.Event) -> None:
        """Take and run jobs until `stop` is set and the last one has ended."""
        folder, name = self._context.settings.home / "run", f"{self._kind}-{self._context.boot_id.hex[:8]}"
        async with open_ring_socket(folder, name, self._on_ring) as ring_socket, asyncio.TaskGroup() as group:
            redis_url = self._context.settings.redis_url.get_secret_value()
            loops = [
                group.create_task(run_doorbell(redis_url, self._queue, ring_socket, self._context.label)),
                group.create_task(self._beat(stop)),
                group.create_task(self._poll(group)),
                group.create_task(self._watch.run()),
                group.create_task(self._end_when_idle(stop)),
            ]
            await stop.wait()
            self._locks.leave()
            await self._drain()
            for loop in loops:
                loop.cancel()
        self._cpu.close()

    def check_access(self) -> None:
        """Raise `Denied` (code `account_refused`) if the database has refused the account of this worker."""
        if self._is_refused:
            raise refusal(self._database_url)

    async def _ask_for_refusal(self) -> None:
        """Ask the database, which is not available, whether it refuses the account of a worker that has joined."""
        if self._context.settings.server_url:
            self._is_refused = await asyncio.to_thread(is_refused, self._database_url)

    async def leave(self) -> None:
        """Record that this boot is GONE."""
        await self._set_state("GONE")

    def _on_ring(self) -> None:
        self._has_rung = True
        self._look_cause = "doorbell"
        self._is_due.set()

    async def _poll(self, group: asyncio.TaskGroup) -> None:
        """Look for assignments to this worker after a ring, after the end of a job, and every few seconds."""
        pause_s = _FIRST_POLL_S / 2
        while True:
            self._is_due.clear()
            if not self._is_leaving and len(self._attempts) < self._slots:
                with suppress(Unavailable):
                    async with self._runtime.database.transaction() as session:
                        assigned = await claims.assigned(session, self._context.worker_id)
                    new = [job for job in assigned if job.attempt_id not in self._attempts]
                    count("looks_total", cause=self._look_cause)
                    count("assignments_found_total", len(new), cause=self._look_cause)
                    for job in new:
                        if len(self._attempts) < self._slots and not self._is_leaving:
                            self._attempts.add(job.attempt_id)
                            group.create_task(self._serve(job))
            self._look_cause = "poll"
            pause_s = self._timers.poll_s if self._has_rung else min(2 * pause_s, _STARTING_POLL_S, self._timers.poll_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s * random.uniform(0.8, 1.0)):  # noqa: S311 - spreads load only
                    await self._is_due.wait()

    async def _serve(self, assigned: Assigned) -> None:
        try:
            runner = await self._claim(assigned)
            if runner is not None:
                self._runners[assigned.attempt_id] = runner
                set_gauge("jobs_running", len(self._runners))
                if self._is_leaving:
                    runner.job.draining.set()
                finished = await runner.run()
                if finished is not None:
                    await self._runtime.bus.publish(*finished.mark)
                    await self._wake()
        finally:
            self._attempts.discard(assigned.attempt_id)
            self._busy_at = time.monotonic()
            self._runners.pop(assigned.attempt_id, None)
            set_gauge("jobs_running", len(self._runners))
            if self._look_cause == "poll":
                self._look_cause = "job_end"
            self._is_due.set()

    async def _claim(self, assigned: Assigned) -> ClaimRunner | None:
        """Claim the job, with the same claim id in each try, so that a lost response does no harm."""
        claim_id = uuid4()
        give_up_at = time.monotonic() + self._timers.self_fence_s
        while time.monotonic() < give_up_at:
            sent_at = time.monotonic()
            try:
                async with self._runtime.database.transaction() as session:
                    result = await claims.claim(
                        session, assigned, claim_id=claim_id, claimant=self._claimant, lease_s=self._timers.lease_s
                    )
                    owner = await traces.of_job(session, assigned.job_id)
            except Unavailable:
                if self._is_refused:
                    return None
                await asyncio.sleep(RETRY_S)
                continue
            if result is None or owner is None:
                return None
            job, mark = result
            count("claims_total", kind=job.kind)
            await self._runtime.bus.publish(*mark)
            bind(run=job.run_id, experiment=job.experiment_id, job=job.id, trace_id=owner.trace_id)
            _LOG.info("job.claimed", kind=job.kind, claim_id=str(claim_id))
            claimed = ClaimedJob(job, claim_id=claim_id, context=self._context, cpu=self._cpu, trace=owner)
            return ClaimRunner(claimed, self._handlers[job.kind], sent_at=sent_at, fault_since=self._watch.fault_since)
        return None

    async def _lose_device(self, failed: Failed) -> None:
        """End the running jobs, since their engines may use the device; the scheduler places them elsewhere."""
        for runner in self._runners.values():
            runner.lose_device(failed)
        await self._wake()

    async def _end_when_idle(self, stop: asyncio.Event) -> None:
        """Stop the worker once it has had no job for as long as the settings say, if they say so."""
        limit_s = self._context.settings.until_idle_s
        if limit_s is None:
            return
        while (idle_s := time.monotonic() - self._busy_at) < limit_s or self._attempts:
            await asyncio.sleep(min(1.0, max(limit_s - idle_s, 0.1)))
            if self._attempts:
                self._busy_at = time.monotonic()
        _LOG.info("worker.idle", idle_s=round(idle_s, 1))
        stop.set()

    async def _beat(self, stop: asyncio.Event) -> None:
        """Send heartbeats, and stop the worker if a newer boot has replaced it, or if its account has ended."""
        while True:
            await asyncio.sleep(self._timers.heartbeat_s * random.uniform(0.8, 1.2))  # noqa: S311 - spreads load only
            try:
                async with self._runtime.database.transaction() as session:
                    state = await workers.heartbeat(session, self._context.worker_id)
            except Unavailable:
                await self._ask_for_refusal()
                if self._is_refused:
                    _LOG.error("worker.refused", jobs=len(self._runners))
                    stop.set()
                continue
            if state not in {"LIVE", "DRAINING"}:
                _LOG.warning("worker.replaced", worker_id=str(self._context.worker_id))
                stop.set()

    async def _drain(self) -> None:
        """Claim no more jobs, let the running ones finish their chunk, and cancel those that do not end in time."""
        self._is_leaving = True
        _LOG.info("worker.drains", jobs=len(self._runners))
        if self._is_refused:
            for runner in self._runners.values():
                runner.lose_access()
        await self._set_state("DRAINING")
        for runner in self._runners.values():
            runner.job.draining.set()
        for limit_s in (self._timers.drain_s, self._timers.cancel_term_s + self._timers.kill_s):
            with suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    while self._attempts:
                        self._is_due.clear()
                        await self._is_due.wait()
            for runner in self._runners.values():
                runner.preempt()

    async def _set_state(self, state: Literal["DRAINING", "GONE"]) -> None:
        with suppress(Unavailable):
            async with self._runtime.database.transaction() as session:
                await workers.set_state(session, self._context.worker_id, state)
            await self._wake()

    async def _wake(self) -> None:
        await self._runtime.bus.push_wake()
