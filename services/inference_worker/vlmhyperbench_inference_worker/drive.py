"""Drive the load of a claim: start the load generator, commit the segments that it seals, notice a lost engine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from vlmhyperbench.domain.states import PhaseState
from vlmhyperbench.errors import OutOfMemory
from vlmhyperbench.load.process import Line, LoadProcess
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.details import Details
from vlmhyperbench_inference_worker.known import max_known, min_known
from vlmhyperbench_inference_worker.live import Live
from vlmhyperbench_inference_worker.plan import Load
from vlmhyperbench_inference_worker.refusals import refused
from vlmhyperbench_inference_worker.requests import PlannedRequest
from vlmhyperbench_inference_worker.serving import Serving
from vlmhyperbench_inference_worker.sink import Sealed, Sink
from vlmhyperbench_inference_worker.watch import Watch
from vlmhyperbench_sdk.errors import Unavailable
from vlmhyperbench_sdk.load import EndLine, PhaseLine, ProgressLine, SegmentLine


class EngineLost(Unavailable):
    """The engine died, or its address does not answer; the next attempt sends the unanswered requests again.

    Its code says why, where the gateway knows it: `oom`, `engine_exited`.
    """

    code = "engine_lost"


@dataclass(slots=True)
class Driven:
    """What is known of a load after it was driven."""

    has_answered: bool
    """Whether the engine answered a request of this claim in any phase, or a probe since it was loaded."""
    end: EndLine | None = None
    first_sent_ns: int | None = None
    last_end_ns: int | None = None
    sending_until_ns: int | None = None
    """When the last answer ended, including those of warm-up and baseline."""
    live: Live = field(default_factory=Live)
    ordinals: set[int] = field(default_factory=set)
    """Ordinals of the measured phase that this claim committed."""

    @property
    def failure(self) -> Unavailable | None:
        """The error of a load generator that ended before it had sent everything."""
        if self.end is not None and self.end.outcome == "complete":
            return None
        reason = self.end.error if self.end else "it ended without a last line"
        return Unavailable(f"The load generator did not finish: {reason}.", code="load_generator")


async def drive(job: ClaimedJob, load: Load, sink: Sink, watch: Watch, details: Details | None = None) -> Driven:
    """Follow the lines of the load generator until it ends; a sealed segment is committed before the next line is read.

    `details` is told of the requests that count.

    Raises:
        EngineLost: the engine is lost; rows that it could not answer are not written.
        TargetRefused: the endpoint does not accept the key any more; its earlier answers are committed.
        Fenced: the claim is lost.
    """
    follower = _Follower(job, load, sink, details)
    async with ending(job, load.process):
        await load.process.ready(load.serving.measured.secrets)
        # The stall limit counts from here: no request was sent while the plan was written.
        job.committed_at = time.monotonic()
        async with _retuning(job, load.process):
            async for line in load.process.lines():
                await follower.follow(line, watch)
    return follower.driven


@asynccontextmanager
async def _retuning(job: ClaimedJob, process: LoadProcess) -> AsyncIterator[None]:
    """Tell the load generator how many requests to keep in flight whenever the run wants another number."""

    async def tell() -> None:
        while True:
            await job.retuned.wait()
            job.retuned.clear()
            if job.in_flight is not None:
                await process.retune(job.in_flight)

    telling = asyncio.create_task(tell(), name="retune")
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


class _Follower:
    """Acts on the lines of one load generator."""

    def __init__(self, job: ClaimedJob, load: Load, sink: Sink, details: Details | None) -> None:
        self._details = details
        self.driven = Driven(has_answered=bool(load.serving.answered_options))
        self._job = job
        self._load = load
        self._sink = sink
        self._measured = load.phases.measured
        self._earlier = job.job.done, job.job.failed
        """Requests that earlier claims of the job committed, and how many of them failed."""
        self._requests: dict[int, dict[int, PlannedRequest]] = {}
        for request in load.phases.requests:
            self._requests.setdefault(request.phase, {})[request.ordinal] = request

    async def follow(self, line: Line, watch: Watch) -> None:
        match line:
            case SegmentLine():
                await self._commit(line)
            case ProgressLine() if line.phase == self._measured:
                done, failed = self._earlier
                await self._job.progress(
                    done=done + line.done,
                    total=_size(self._job),
                    failed=failed + line.failed,
                    speeds=partial(self.driven.live.now, line.in_flight) if self._job.job.counts else None,
                    resources=watch.latest,
                )
            case PhaseLine(state="COMPLETE") if line.phase != self._measured or self._job.job.phase is None:
                await self._job.close_phase(line.phase, PhaseState.COMPLETE)
            case EndLine():
                self.driven.end = line

    async def _commit(self, line: SegmentLine) -> None:
        sealed = await self._seal(line, keep_unanswered=True)
        # A job that stops has no further attempt, so it keeps the rows of unanswered requests.
        serving = self._load.serving
        may_end = sealed is not None and not self._job.stopping.is_set()
        has_run_out = sealed is not None and may_end and await asyncio.to_thread(_has_run_out, sealed, serving)
        is_lost = has_run_out or (sealed is not None and may_end and await self._is_lost(sealed))
        if is_lost:
            sealed = await self._seal(line, keep_unanswered=False)
        await asyncio.to_thread(self._path(line).unlink)
        if sealed and sealed.refusal:
            raise refused(sealed.refusal, serving)
        if sealed:
            await self._job.append(sealed.chunk, sealed.rows)
            self._note(sealed, is_measured=line.phase == self._measured)
        if is_lost:
            code, reason = await serving.why_lost()
            if has_run_out:
                message = f"The engine at {serving.measured.url} ran out of memory while it answered. {reason}"
                raise EngineLost(message, code=OutOfMemory.code)
            message = f"The engine at {serving.measured.url} does not answer any more. {reason}"
            raise EngineLost(message, code=code)

    async def _seal(self, line: SegmentLine, *, keep_unanswered: bool) -> Sealed | None:
        return await asyncio.to_thread(
            self._sink.seal,
            self._path(line),
            self._requests[line.phase],
            phase=line.phase,
            sha256=line.sha256,
            keep_unanswered=keep_unanswered,
        )

    def _path(self, line: SegmentLine) -> Path:
        return self._load.process.record_folder / line.segment

    def _note(self, sealed: Sealed, *, is_measured: bool) -> None:
        driven = self.driven
        driven.has_answered |= sealed.unanswered < len(sealed.rows)
        driven.sending_until_ns = max_known((driven.sending_until_ns, sealed.last_end_ns))
        if is_measured:
            driven.live.add(sealed.rows)
            if self._details is not None:
                self._details.add(sealed.rows, phase=self._measured)
            driven.ordinals.update(row.ordinal for row in sealed.rows)
            driven.first_sent_ns = min_known((driven.first_sent_ns, sealed.first_sent_ns))
            driven.last_end_ns = max_known((driven.last_end_ns, sealed.last_end_ns))

    async def _is_lost(self, sealed: Sealed) -> bool:
        """Return whether the engine is lost; a single broken answer of an engine that is alive is a row as any other.

        An engine that breaks every request from the first on counts as lost too, so that its job ends after a few
        attempts and does not try each request five times.
        """
        if not sealed.unanswered:
            return False
        has_never_answered = sealed.unanswered == len(sealed.rows) and not self.driven.has_answered
        return has_never_answered or not await self._load.serving.is_alive()


def _has_run_out(sealed: Sealed, serving: Serving) -> bool:
    """Return whether an engine that can be loaded smaller says that memory ran out, in an answer or in its log.

    llama.cpp lives on after a failed allocation: it breaks the connection, or answers with the error.
    """
    if serving.fitted is None or serving.fitted.settings is None:
        return False
    return sealed.short_of_memory > 0 or (sealed.unanswered > 0 and serving.says_out_of_memory())


def _size(job: ClaimedJob) -> int | None:
    start, end = job.job.range_start, job.job.range_end
    return None if start is None or end is None else end - start


@asynccontextmanager
async def ending(job: ClaimedJob, process: LoadProcess) -> AsyncIterator[None]:
    """End the load generator when the job is cancelled, drains or stops; its sealed segments still arrive.

    When the claim is lost, it is killed at once, although the handler may not end yet: a cancelled statement waits for
    a database that does not answer.

    When the job stops, requests in flight are answered first, however slow they are: faster answers may be the easier
    ones, and every request that was sent has its row. Cancelling or draining the job ends it at once all the same.
    """

    async def ask(when: asyncio.Event, end: Callable[[], Awaitable[object]]) -> None:
        await when.wait()
        await end()

    ends = (
        (job.cancelled, process.cancel),
        (job.draining, process.cancel),
        (job.stopping, process.drain),
        (job.fenced, partial(process.stop, term_s=0)),
    )
    asking = [asyncio.create_task(ask(when, end), name="end-load") for when, end in ends]
    try:
        yield
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
