"""Drive one claim's load: start the load generator's clock, commit what it seals, notice when the engine is gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from vlmhyperbench.domain.states import PhaseState
from vlmhyperbench.load.process import LoadProcess
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.live import Live
from vlmhyperbench_inference_worker.refusals import refused
from vlmhyperbench_inference_worker.requests import PlannedRequest
from vlmhyperbench_inference_worker.serving import Serving
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
    """Last end of an answer, of what stands aside too."""
    live: Live = field(default_factory=Live)
    ordinals: set[int] = field(default_factory=set)
    """Of the measured phase, committed by this claim."""


async def drive(
    job: ClaimedJob,
    process: LoadProcess,
    *,
    serving: Serving,
    sink: Sink,
    watch: Watch,
    record: Path,
    planned: Sequence[PlannedRequest],
    phase: int,
) -> Driven:
    """Follow the load generator's lines until it ends; every sealed segment is committed before the next is read.

    Raises:
        EngineLost: the engine is gone; rows it could not answer are not written.
        TargetRefused: the endpoint does not take the key any more; what it answered before is committed.
        Fenced: the claim is lost.
    """
    driven = Driven(has_answered=bool(serving.answered_options))
    by_phase: dict[int, dict[int, PlannedRequest]] = {}
    for request in planned:
        by_phase.setdefault(request.phase, {})[request.ordinal] = request
    before_done, before_failed = job.job.done, job.job.failed
    async with ending(job, process):
        await process.ready(serving.measured.secrets)
        # No request has had any of its time yet, however long it took to write them.
        job.committed_at = time.monotonic()
        async for line in process.lines():
            match line:
                case SegmentLine():
                    await _commit(job, line, record / line.segment, by_phase[line.phase], serving, sink, driven, phase)
                case ProgressLine() if line.phase == phase:
                    await job.progress(
                        done=before_done + line.done,
                        total=_size(job),
                        failed=before_failed + line.failed,
                        speeds=partial(driven.live.now, line.in_flight) if job.job.counts else None,
                        resources=watch.latest,
                    )
                case PhaseLine(state="COMPLETE") if line.phase != phase or job.job.phase is None:
                    await job.close_phase(line.phase, PhaseState.COMPLETE)
                case EndLine():
                    driven.end = line
                case _:
                    continue
    return driven


async def _commit(
    job: ClaimedJob,
    line: SegmentLine,
    path: Path,
    planned: Mapping[int, PlannedRequest],
    serving: Serving,
    sink: Sink,
    driven: Driven,
    phase: int,
) -> None:
    sealed = await asyncio.to_thread(
        lambda: sink.seal(path, planned, phase=line.phase, sha256=line.sha256, keep_unanswered=True)
    )
    # Of a job that stops there is no attempt that asks again.
    lost = sealed is not None and not job.stopping.is_set() and await _is_lost(serving, sealed, driven)
    if lost:
        sealed = await asyncio.to_thread(
            lambda: sink.seal(path, planned, phase=line.phase, sha256=line.sha256, keep_unanswered=False)
        )
    await asyncio.to_thread(path.unlink)
    if sealed and sealed.refusal:
        raise refused(sealed.refusal, serving)
    if sealed:
        await job.append(sealed.chunk, sealed.rows)
        driven.has_answered |= sealed.unanswered < len(sealed.rows)
        driven.sending_until_ns = _most(driven.sending_until_ns, sealed.last_end_ns)
        if line.phase == phase:
            driven.live.add(sealed.rows)
            driven.ordinals.update(row.ordinal for row in sealed.rows)
            driven.first_sent_ns = _least(driven.first_sent_ns, sealed.first_sent_ns)
            driven.last_end_ns = _most(driven.last_end_ns, sealed.last_end_ns)
    if lost:
        reason = serving.status.error or "its process has ended, or nobody answers at its address"
        raise EngineLost(f"The engine at {serving.measured.url} does not answer any more: {reason}.")


async def _is_lost(serving: Serving, sealed: Sealed, driven: Driven) -> bool:
    """Say whether nobody answers any more: one broken answer of an engine that lives is its answer.

    An engine that breaks everything from the first request on is as good as none: its job is given up after a few
    attempts, not after every request was tried five times.
    """
    if not sealed.unanswered:
        return False
    is_silent = sealed.unanswered == len(sealed.rows) and not driven.has_answered
    return is_silent or not await serving.is_alive()


def _size(job: ClaimedJob) -> int | None:
    start, end = job.job.range_start, job.job.range_end
    return None if start is None or end is None else end - start


def _least(a: int | None, b: int | None) -> int | None:
    return min((value for value in (a, b) if value is not None), default=None)


def _most(a: int | None, b: int | None) -> int | None:
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
