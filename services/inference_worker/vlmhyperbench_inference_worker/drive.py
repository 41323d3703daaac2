"""Drive one claim's load: start the load generator's clock, commit what it seals, notice when the engine is gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from vlmhyperbench.domain.states import PhaseState
from vlmhyperbench.load.process import Line, LoadProcess
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.live import Live
from vlmhyperbench_inference_worker.plan import Load
from vlmhyperbench_inference_worker.refusals import refused
from vlmhyperbench_inference_worker.requests import PlannedRequest
from vlmhyperbench_inference_worker.sink import Sealed, Sink
from vlmhyperbench_inference_worker.watch import Watch
from vlmhyperbench_sdk.errors import Unavailable
from vlmhyperbench_sdk.load import EndLine, PhaseLine, ProgressLine, SegmentLine


class EngineLost(Unavailable):
    """The engine died, or nobody answers at its address; what it left unanswered is asked again by the next attempt."""

    code = "engine_lost"


@dataclass(slots=True)
class Driven:
    """What a claim learned while it drove."""

    has_answered: bool
    """The engine answered a request of this claim, of whatever phase, or a probe since it was loaded."""
    end: EndLine | None = None
    first_sent_ns: int | None = None
    last_end_ns: int | None = None
    sending_until_ns: int | None = None
    """Last end of an answer, of warm-up and baseline too."""
    live: Live = field(default_factory=Live)
    ordinals: set[int] = field(default_factory=set)
    """Of the measured phase, committed by this claim."""

    def check_complete(self) -> None:
        """Check that the load generator asked everything.

        Raises:
            Unavailable: it ended before.
        """
        if self.end is None or self.end.outcome != "complete":
            reason = self.end.error if self.end else "it ended without a last line"
            raise Unavailable(f"The load generator did not finish: {reason}.", code="load_generator")

    def reached(self, order: Sequence[int]) -> int:
        """Return how many ordinals of an order were passed with the last one that was committed."""
        return max((place for place, ordinal in enumerate(order, 1) if ordinal in self.ordinals), default=0)


async def drive(job: ClaimedJob, load: Load, sink: Sink, watch: Watch) -> Driven:
    """Follow the load generator's lines until it ends; every sealed segment is committed before the next is read.

    Raises:
        EngineLost: the engine is gone; rows it could not answer are not written.
        TargetRefused: the endpoint does not take the key any more; what it answered before is committed.
        Fenced: the claim is lost.
    """
    follower = _Follower(job, load, sink)
    async with ending(job, load.process):
        await load.process.ready(load.serving.measured.secrets)
        # No request has had any of its time yet, however long it took to write them.
        job.committed_at = time.monotonic()
        async for line in load.process.lines():
            await follower.follow(line, watch)
    return follower.driven


class _Follower:
    """Obeys the lines of one load generator."""

    def __init__(self, job: ClaimedJob, load: Load, sink: Sink) -> None:
        self.driven = Driven(has_answered=bool(load.serving.answered_options))
        self._job = job
        self._load = load
        self._sink = sink
        self._measured = load.phases.measured
        self._before = job.job.done, job.job.failed
        self._requests: dict[int, dict[int, PlannedRequest]] = {}
        for request in load.phases.requests:
            self._requests.setdefault(request.phase, {})[request.ordinal] = request

    async def follow(self, line: Line, watch: Watch) -> None:
        match line:
            case SegmentLine():
                await self._commit(line)
            case ProgressLine() if line.phase == self._measured:
                done, failed = self._before
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
        # Of a job that stops there is no attempt that asks again.
        is_lost = sealed is not None and not self._job.stopping.is_set() and await self._is_lost(sealed)
        if is_lost:
            sealed = await self._seal(line, keep_unanswered=False)
        serving = self._load.serving
        await asyncio.to_thread(self._path(line).unlink)
        if sealed and sealed.refusal:
            raise refused(sealed.refusal, serving)
        if sealed:
            await self._job.append(sealed.chunk, sealed.rows)
            self._note(sealed, is_measured=line.phase == self._measured)
        if is_lost:
            reason = serving.status.error or "its process has ended, or nobody answers at its address"
            raise EngineLost(f"The engine at {serving.measured.url} does not answer any more: {reason}.")

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
        driven.sending_until_ns = _max(driven.sending_until_ns, sealed.last_end_ns)
        if is_measured:
            driven.live.add(sealed.rows)
            driven.ordinals.update(row.ordinal for row in sealed.rows)
            driven.first_sent_ns = _min(driven.first_sent_ns, sealed.first_sent_ns)
            driven.last_end_ns = _max(driven.last_end_ns, sealed.last_end_ns)

    async def _is_lost(self, sealed: Sealed) -> bool:
        """Say whether nobody answers any more: one broken answer of an engine that lives is its answer.

        An engine that breaks everything from the first request on is as good as none: its job is given up after a few
        attempts, not after every request was tried five times.
        """
        if not sealed.unanswered:
            return False
        is_silent = sealed.unanswered == len(sealed.rows) and not self.driven.has_answered
        return is_silent or not await self._load.serving.is_alive()


def _size(job: ClaimedJob) -> int | None:
    start, end = job.job.range_start, job.job.range_end
    return None if start is None or end is None else end - start


def _min(a: int | None, b: int | None) -> int | None:
    return min((value for value in (a, b) if value is not None), default=None)


def _max(a: int | None, b: int | None) -> int | None:
    return max((value for value in (a, b) if value is not None), default=None)


@asynccontextmanager
async def ending(job: ClaimedJob, process: LoadProcess) -> AsyncIterator[None]:
    """Ask the load generator to end when the job is cancelled, drains or stops: what it has sealed still comes.

    Of a job that stops, what is under way is answered first, however slow: the answers that came first may be the
    easier ones, and what was sent has its row. To cancel or to drain such a job ends it at once, as any other.
    """

    async def ask(when: asyncio.Event, end: Callable[[], Awaitable[None]]) -> None:
        await when.wait()
        await end()

    ends = ((job.cancelled, process.cancel), (job.draining, process.cancel), (job.stopping, process.drain))
    asking = [asyncio.create_task(ask(when, end), name="end-load") for when, end in ends]
    try:
        yield
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
