"""A job as its handler sees it: everything that is written for it goes through the claim, which is the fence."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ParamSpec, TypeAlias, TypeVar
from uuid import UUID

from vlmhyperbench.bus import Progress, Resources, Speeds
from vlmhyperbench.db import claim_phases, claims
from vlmhyperbench.db.appending import Appended, NewChunk, NewFact, append
from vlmhyperbench.db.claims import ClaimRecord
from vlmhyperbench.domain.outcomes import Complete, Failed, Outcome, Preempted, Stopped
from vlmhyperbench.domain.states import PhaseState
from vlmhyperbench.domain.steps import STEPS
from vlmhyperbench.errors import Conflict, Fenced, Unavailable
from vlmhyperbench.worker.rates import Rate
from vlmhyperbench_sdk.load import PhaseKind
from vlmhyperbench_sdk.types import JsonObject

if TYPE_CHECKING:
    from vlmhyperbench.db.engine import AsyncSession
    from vlmhyperbench.db.views import JobView
    from vlmhyperbench.runtime import Runtime
    from vlmhyperbench.settings import Settings
    from vlmhyperbench.worker.children import CpuChildren

__all__ = ["ClaimedJob", "Complete", "Failed", "Fenced", "Handler", "Outcome", "Preempted", "Stopped", "WorkerContext"]

RETRY_S = 0.5
"""Pause between two tries while the database is away; the self-fence ends them."""

PROGRESS_S = 0.5
"""Progress is published at most so often; what comes sooner is dropped."""

Params = ParamSpec("Params")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerContext:
    """What a worker's hooks and handlers know of the process that they live in."""

    worker_id: UUID
    boot_id: UUID
    name: str
    runtime: Runtime
    settings: Settings
    label: Mapping[str, str]
    """Environment that every child gets, so that the next boot of this worker can find what an older one left."""
    lock_fds: tuple[int, ...] = ()
    """Locks of the worker's devices: what uses a device inherits them (`start_child(pass_fds=…)`)."""


class ClaimedJob:
    """One claim of one job. Handlers get it, write through it, and return an `Outcome`.

    Every write raises `Fenced` once the claim is lost: let it pass, write nothing more. `cancelled` says that the run
    was cancelled: stop soon, return any outcome. `draining` says that the worker goes or the run is paused: finish the
    chunk at hand, append it, return `Preempted`.
    """

    def __init__(self, job: JobView, *, claim_id: UUID, context: WorkerContext, cpu: CpuChildren) -> None:
        self.job = job
        self.claim_id = claim_id
        self.context = context
        self.runtime = context.runtime
        self.settings = context.settings
        self.cancelled = asyncio.Event()
        self.draining = asyncio.Event()
        self.stopping = asyncio.Event()
        """The run's stop rule said that enough is known: ask nothing more and return `Stopped`."""
        self.fenced = asyncio.Event()
        """The claim is lost and the handler is being cancelled: kill what it runs at once, without a grace."""
        self.committed_at = time.monotonic()
        """When a chunk was last committed, or the claim was taken: a job that commits nothing for long has stalled."""
        self._cpu = cpu
        self._rate = Rate()
        self._published_at = float("-inf")

    @contextmanager
    def loading(self, limit_s: float) -> Iterator[None]:
        """While its model is loaded a job commits nothing, and has not stalled until so many seconds later."""
        self.committed_at = time.monotonic() + limit_s
        try:
            yield
        finally:
            self.committed_at = time.monotonic()

    @property
    def interruption(self) -> Preempted | Stopped | None:
        """How the handler ends if it asks nothing more from now on; None where nothing speaks against going on."""
        if self.cancelled.is_set() or self.draining.is_set():
            return Preempted()
        return Stopped() if self.stopping.is_set() else None

    @property
    def run_id(self) -> UUID:
        """The run of a job of scope `run`.

        Raises:
            LookupError: the job belongs to an experiment.
        """
        if self.job.run_id is None:
            raise LookupError(f"The job {self.job.id} belongs to an experiment, not to a run.")
        return self.job.run_id

    @property
    def stream_id(self) -> UUID:
        """Where events of this job go: its run, or its experiment."""
        owner = self.job.run_id if self.job.scope == "run" else self.job.experiment_id
        assert owner is not None, "a job has an owner by construction"  # noqa: S101
        return owner

    async def append(self, chunk: NewChunk, rows: Sequence[NewFact]) -> Appended:
        """Commit a chunk that is already in storage, its rows and the lease in one transaction.

        Tried again while the database is away: appending the same chunk twice changes nothing.

        Raises:
            Fenced: the claim is lost; nothing was written.
        """
        while True:
            try:
                async with self.runtime.database.transaction() as session:
                    appended = await append(
                        session,
                        job_id=self.job.id,
                        claim_id=self.claim_id,
                        chunk=chunk,
                        rows=rows,
                        lease_s=self.settings.timers.lease_s,
                    )
            except Unavailable:
                await asyncio.sleep(RETRY_S)
                continue
            if appended is None:
                raise self._fenced()
            self.committed_at = time.monotonic()
            if appended.cancel_requested:
                self.cancelled.set()
            return appended

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        """Open a transaction that owns the job: the run (or experiment) is locked first, then the job by its claim.

        Commits on leaving; events that were appended inside are published afterwards.

        Raises:
            Fenced: the claim is lost; nothing was written.
        """
        async with self.runtime.database.transaction() as session:
            before = await claims.hold(session, job_id=self.job.id, claim_id=self.claim_id)
            if before is None:
                raise self._fenced()
            yield session
            after = await claims.event_seq(session, self.stream_id)
        if after > before:
            await self.runtime.bus.publish(self.stream_id, after)

    async def open_phase(
        self, kind: PhaseKind, *, params: JsonObject, count: int | None = None, is_own: bool = True
    ) -> int:
        """Open a phase that this claim measures and return its number.

        Rows that are appended to the job's own phase are the job's, and count as it does; those of any other, such as
        a warm-up or the baseline rows, count nowhere.

        Raises:
            Fenced: the claim is lost.
        """
        async with self.transaction() as session:
            return await claim_phases.open_of_claim(
                session, self.run_id, self.job.id, self.claim_id, kind=kind, params=params, count=count, is_own=is_own
            )

    async def close_phase(self, no: int, state: PhaseState, *, count: int | None = None) -> None:
        """Close a phase that this claim opened; a phase bounded by time gets its count here.

        Phases that are still open when the claim ends are closed with it: COMPLETE or STOPPED as the job, else VOID.

        Raises:
            Fenced: the claim is lost.
        """
        async with self.transaction() as session:
            await claim_phases.close_one(session, self.run_id, self.claim_id, no=no, state=state, count=count)

    async def record_claim(self, added: ClaimRecord) -> None:
        """Record what cannot be recovered later, in steps.

        Raises:
            Fenced: the claim is lost.
        """
        async with self.transaction() as session:
            await claims.record(session, self.claim_id, added)

    async def set_resident(self, target_digests: Sequence[str]) -> None:
        """Say which targets this worker holds loaded now, so that the scheduler can give it jobs on them."""
        async with self.runtime.database.transaction() as session:
            await claims.set_resident(session, self.context.worker_id, target_digests)

    async def progress(
        self,
        *,
        done: int,
        total: int | None,
        failed: int = 0,
        stage: str | None = None,
        speeds: Callable[[], Speeds] | None = None,
        resources: Callable[[], Resources | None] | None = None,
    ) -> None:
        """Publish where the job is, with its rate and the time that is left; at most twice a second, never an event.

        The numbers of a job that brings answers are its own shard's; the other shards of the run are added here.
        """
        now = time.monotonic()
        if now - self._published_at < PROGRESS_S and done != total:
            return
        self._published_at = now
        run_done, run_failed, run_total = done, failed, total
        if self.job.counts:
            try:
                async with self.runtime.database.transaction() as session:
                    others = await claims.other_shards(session, self.run_id, self.job.id)
            except Unavailable:
                return
            run_done, run_failed = done + others.done, failed + others.failed
            run_total = others.total if others.total is not None else total
        rate, eta = self._rate.update(now, run_done, run_total)
        await self.runtime.bus.publish_progress(
            self.stream_id,
            Progress(
                run_id=self.stream_id,
                stage=stage or STEPS[self.job.kind].stage,
                done=run_done,
                total=run_total,
                failed=run_failed,
                rate_per_s=rate,
                eta_s=eta,
                speeds=speeds() if speeds is not None else None,
                resources=resources() if resources is not None else None,
                at=datetime.now(UTC),
            ),
        )

    async def run_cpu(self, function: Callable[Params, Result], *args: Params.args, **kwargs: Params.kwargs) -> Result:
        """Run a function of a module in a child process of its own (spawned, no credentials) and return its result.

        Cancelling the await, or the run, kills the child. Whatever the function raises is raised here.

        Raises:
            Unavailable: the child died, as when the kernel takes its memory.
            Conflict: the run was cancelled; let it pass.
        """
        work = asyncio.ensure_future(self._cpu.run(function, *args, **kwargs))
        stop = asyncio.ensure_future(self.cancelled.wait())
        try:
            await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise Conflict("The run was cancelled.", code="cancelled")
            return await work
        finally:
            work.cancel()
            stop.cancel()
            await asyncio.gather(work, stop, return_exceptions=True)

    def _fenced(self) -> Fenced:
        return Fenced(f"The claim {self.claim_id} on the job {self.job.id} is lost.")


Handler: TypeAlias = Callable[[ClaimedJob], Awaitable[Outcome]]
"""The work of one kind of job. It raises whatever goes wrong: `outcome_of` says what that means for the job."""
