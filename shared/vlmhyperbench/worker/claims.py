"""A claimed job as its handler sees it; all writes go through the claim, which is the fencing token."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeAlias, TypeVar
from uuid import UUID

from vlmhyperbench.bus import Progress
from vlmhyperbench.db import artifacts, claim_phases, claims, reuse
from vlmhyperbench.db.appending import Appended, append
from vlmhyperbench.db.claims import ClaimRecord
from vlmhyperbench.domain.outcomes import Outcome, Preempted, Stopped
from vlmhyperbench.domain.states import PhaseState
from vlmhyperbench.domain.steps import STEPS
from vlmhyperbench.errors import Conflict, Fenced, Unavailable
from vlmhyperbench.logs import get_logger
from vlmhyperbench.monitoring.recording import count
from vlmhyperbench.monitoring.trace_context import TraceContext
from vlmhyperbench.monitoring.tracing import span
from vlmhyperbench.wire.live import Resources, Speeds
from vlmhyperbench.worker.rates import Rate
from vlmhyperbench_sdk.load import PhaseKind
from vlmhyperbench_sdk.types import JsonObject

if TYPE_CHECKING:
    from vlmhyperbench.db.engine import AsyncSession
    from vlmhyperbench.db.views import JobView, NewChunk, NewFact, ReusedFactView
    from vlmhyperbench.environments.base import PreparationStep, Tell
    from vlmhyperbench.runtime import Runtime
    from vlmhyperbench.settings import Settings
    from vlmhyperbench.worker.children import CpuChildren

_LOG = get_logger(__name__)

RETRY_S = 0.5
"""Pause between two tries while the database is not available; the self-fence ends them."""

PROGRESS_S = 0.5
"""Minimum interval between two publications of progress; others are dropped."""

Params = ParamSpec("Params")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerContext:
    """The worker's process, for its hooks and handlers."""

    worker_id: UUID
    boot_id: UUID
    name: str
    runtime: Runtime
    settings: Settings
    label: Mapping[str, str]
    """Environment variables of all children, by which the next boot of this worker finds orphan processes."""
    lock_fds: tuple[int, ...] = ()
    """Open lock files of the worker's devices; processes that use a device inherit them (`start_child(pass_fds=…)`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFile:
    """A kind of file of which every claim may add one."""

    kind: Literal["resources", "reuse", "log"]
    suffix: str
    media_type: str
    stem: str = ""
    """Beginning of the file's name; by default the kind."""

    def name(self, claim_id: UUID) -> str:
        """Return the name of the file of a claim, as users see it."""
        return f"{self.stem or self.kind}-{claim_id}.{self.suffix}"


RESOURCES = ClaimFile(kind="resources", suffix="parquet", media_type="application/vnd.apache.parquet")
ENGINE_LOG = ClaimFile(kind="log", suffix="log", media_type="text/plain; charset=utf-8", stem="engine")
GATEWAY_LOG = replace(ENGINE_LOG, stem="gateway")
WORKER_LOG = replace(ENGINE_LOG, stem="worker")
REUSE = ClaimFile(kind="reuse", suffix="jsonl", media_type="application/x-ndjson")


class ClaimedJob:
    """One claim of one job. A handler receives it, writes through it, and returns an `Outcome`.

    Every write raises `Fenced` once the claim is lost; a handler does not catch it. After `cancelled` the handler ends
    soon, with any outcome. After `draining` (the worker ends, or the run is paused) it finishes and appends the current
    chunk and returns `Preempted`.
    """

    def __init__(
        self,
        job: JobView,
        *,
        claim_id: UUID,
        context: WorkerContext,
        cpu: CpuChildren,
        trace: TraceContext | None = None,
    ) -> None:
        self.job = job
        self.claim_id = claim_id
        self.trace = trace
        """The span of the run or experiment; None: no span is made."""
        self.context = context
        self.runtime = context.runtime
        self.settings = context.settings
        self.cancelled = asyncio.Event()
        self.draining = asyncio.Event()
        self.stopping = asyncio.Event()
        """The run's stop rule has decided: the handler sends no further request and returns `Stopped`."""
        self.in_flight: int | None = None
        """Requests in flight as a person has changed them; None: as the scenario says."""
        self.retuned = asyncio.Event()
        """`in_flight` has another value than the load generator got; who tells it clears the event."""
        self.fenced = asyncio.Event()
        """The claim is lost and the handler is being cancelled: it kills its processes without a grace period."""
        self.has_stalled = False
        """The handler is being cancelled because it committed nothing for too long: its target may hang."""
        self.committed_at = time.monotonic()
        """Instant of the last commit of a chunk, or else of the claim; the stall limit counts from it."""
        self._cpu = cpu
        self._rate = Rate()
        self._published_at = float("-inf")

    @contextmanager
    def extended_stall_limit(self, limit_s: float) -> Iterator[None]:
        """Extend the stall limit by `limit_s` for a block that commits nothing, such as the load of a model."""
        self.committed_at = time.monotonic() + limit_s
        try:
            yield
        finally:
            self.committed_at = time.monotonic()

    @contextmanager
    def preparing(self, stage: str, limit_s: float) -> Iterator[Tell]:
        """Extend the stall limit by `limit_s`, and yield what logs and publishes the steps of a preparation."""

        async def tell(step: PreparationStep, packages: int | None) -> None:
            _LOG.info(stage, step=step, packages=packages)
            await self.announce(f"{stage}: {step}", done=0, total=packages)

        with self.extended_stall_limit(limit_s):
            yield tell

    def note_in_flight(self, in_flight: int | None) -> None:
        """Note the requests in flight that the run wants."""
        if in_flight is not None and in_flight != self.in_flight:
            self.in_flight = in_flight
            self.retuned.set()

    @property
    def interruption(self) -> Preempted | Stopped | None:
        """The outcome of a handler that has to end now; None if it may continue."""
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
        """The stream of this job's events: its run, or its experiment.

        Raises:
            LookupError: the job has neither.
        """
        if self.job.scope == "run" or self.job.experiment_id is None:
            return self.run_id
        return self.job.experiment_id

    async def append(self, chunk: NewChunk, rows: Sequence[NewFact]) -> Appended:
        """Append a chunk that is already in storage, its rows and the renewed lease in one transaction.

        It is tried again while the database is not available; appending the same chunk twice has no effect.

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
            self.note_in_flight(appended.in_flight)
            count("samples_written_total", len(rows))
            return appended

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        """Open a transaction that locks the run (or experiment), then the job by its claim.

        It commits at the end of the block, and then publishes the events that were appended in it.

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

        Rows of the job's own phase count if the job does; rows of any other phase, such as a warm-up or the baseline
        rows, never count.

        Raises:
            Fenced: the claim is lost.
        """
        async with self.transaction() as session:
            return await claim_phases.open_of_claim(
                session, self.run_id, self.job.id, self.claim_id, kind=kind, params=params, count=count, is_own=is_own
            )

    async def close_phase(self, no: int, state: PhaseState, *, count: int | None = None) -> None:
        """Close a phase that this claim opened; a phase that is limited by time gets its count here.

        Phases that are still open at the end of the claim become COMPLETE or STOPPED as the job does, or else VOID.

        Raises:
            Fenced: the claim is lost.
        """
        async with self.transaction() as session:
            await claim_phases.close_phase(session, self.run_id, self.claim_id, no=no, state=state, count=count)

    async def record_claim(self, added: ClaimRecord) -> None:
        """Add evidence that cannot be recovered later to the claim.

        Raises:
            Fenced: the claim is lost.
        """
        async with self.transaction() as session:
            await claims.record(session, self.claim_id, added)

    async def record_target(self, resident: Sequence[str], added: ClaimRecord) -> None:
        """Record which targets this worker has loaded, and the evidence of the target that this claim asks.

        The scheduler prefers the worker for jobs of loaded targets. They are loaded even if the claim is lost.

        Raises:
            Fenced: the claim is lost.
        """
        async with self.runtime.database.transaction() as session:
            await claims.set_resident(session, self.context.worker_id, resident)
        await self.record_claim(added)

    async def add_file(self, file: ClaimFile, content: bytes, *, reused: Sequence[ReusedFactView] = ()) -> None:
        """Store a file of this claim; then add its artifact, and rows that the job reuses, in one transaction.

        Raises:
            Unavailable: storage is full or not available.
            Fenced: the claim is lost; the database is unchanged.
        """
        key = f"runs/{self.run_id}/{file.kind}/{file.name(self.claim_id)}"
        stored = await asyncio.to_thread(self.runtime.storage.put, key, content, media_type=file.media_type)
        async with self.transaction() as session:
            await reuse.add_to_shard(session, self.job.id, reused)
            await artifacts.add(
                session,
                project_id=self.job.project_id,
                run_id=self.run_id,
                claim_id=self.claim_id,
                kind=file.kind,
                name=file.name(self.claim_id),
                media_type=file.media_type,
                storage_key=stored.key,
                sha256=stored.sha256,
                size_bytes=stored.size_bytes,
            )

    async def progress(
        self,
        *,
        done: int,
        total: int | None,
        failed: int = 0,
        speeds: Callable[[], Speeds] | None = None,
        resources: Callable[[], Resources | None] | None = None,
    ) -> None:
        """Publish the job's progress with rate and remaining time, at most twice a second; it is never a durable event.

        `done`, `total` and `failed` are those of the job's own shard; those of the run's other shards are added here.
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
                stage=STEPS[self.job.kind].stage,
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

    async def announce(self, stage: str, *, done: int, total: int | None, unit: Literal["bytes"] | None = None) -> None:
        """Publish what the job prepares before it asks anything; it is never a durable event."""
        progress = Progress(run_id=self.stream_id, stage=stage, done=done, total=total, unit=unit, at=datetime.now(UTC))
        await self.runtime.bus.publish_progress(self.stream_id, progress)

    async def run_cpu(self, function: Callable[Params, Result], *args: Params.args, **kwargs: Params.kwargs) -> Result:
        """Run a function of a module in a child process (spawned, without credentials) and return its result.

        Cancelling the await, or the run, kills the child. Errors of the function are raised here.

        Raises:
            Unavailable: the child died, for example because it ran out of memory, or exceeded the time limit.
            Conflict: the run was cancelled; a handler does not catch it.
        """
        with span("compute", {"function": getattr(function, "__name__", "function")}):
            return await self._run_cpu(function, *args, **kwargs)

    async def _run_cpu(self, function: Callable[Params, Result], *args: Params.args, **kwargs: Params.kwargs) -> Result:
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
        count("fenced_total", reason="write_refused")
        return Fenced(f"The claim {self.claim_id} on the job {self.job.id} is lost.")


Handler: TypeAlias = Callable[[ClaimedJob], Awaitable[Outcome]]
"""Does one kind of job. It raises all errors: `outcome_of` maps them to outcomes."""
