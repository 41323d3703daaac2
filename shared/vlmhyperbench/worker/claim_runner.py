"""Run one claim: run the handler, renew the lease, end the handler when the lease is lost, write the outcome."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeAlias

from vlmhyperbench.db import claims, finishing, runs
from vlmhyperbench.db.refusals import ACCOUNT_REFUSED
from vlmhyperbench.db.views import JobView
from vlmhyperbench.domain.graph import STOPPABLE
from vlmhyperbench.domain.outcomes import Cancelled, Failed, Outcome, Preempted, cause_of, outcome_of
from vlmhyperbench.domain.stalling import stall_limit_s
from vlmhyperbench.domain.steps import STEPS
from vlmhyperbench.errors import STORAGE_FULL, InvalidInput, Unavailable, VlmHyperBenchError
from vlmhyperbench.logs import get_logger, process_masker
from vlmhyperbench.monitoring.recording import count, observe
from vlmhyperbench.monitoring.trace_context import span_id_of
from vlmhyperbench.monitoring.tracing import record_below, span
from vlmhyperbench.storage import holding
from vlmhyperbench.worker.children import STALLED
from vlmhyperbench.worker.claims import RETRY_S, ClaimedJob, Handler

_LOG = get_logger(__name__)
_JITTER = 0.2
_STOPPABLE_SHARE = 0.2
"""Interval of renewals of a shard that a stop rule may end, as a share of the heartbeat."""
FULL_BYTES = 4 * 1024 * 1024
"""A disk with less free space counts as full, so that a failure on it does not count against the job."""
_WATCH_SHARE = 0.05
"""Interval of checks for cancellation and stalling, as a share of the heartbeat."""


FaultSince: TypeAlias = Callable[[float], Awaitable[Failed | None]]
"""Returns what a fault of the worker's devices since a monotonic instant means for a job; None without a fault."""


async def _no_fault(_: float) -> None:
    """Report no fault, for workers without devices."""


class ClaimRunner:
    """Runs one claim to its end; `sent_at` is the monotonic instant just before the claim was sent to the database."""

    def __init__(
        self, job: ClaimedJob, handler: Handler, *, sent_at: float, fault_since: FaultSince = _no_fault
    ) -> None:
        self.job = job
        self._sent_at = sent_at
        self._fault_since = fault_since
        self._handler = handler
        self._timers = job.settings.timers
        self._renewed_at = sent_at
        self._work: asyncio.Task[Outcome | None] | None = None
        self._outcome_name = "fenced"
        self._verdict: Outcome | None = None
        """The outcome if this runner cancels the handler."""

    async def run(self) -> finishing.Finished | None:
        """Run the claim to its end and return the job's new state; None if the claim is lost, so nothing is written."""
        begun, begun_ns, kind = time.monotonic(), time.time_ns(), self.job.job.kind
        if self.job.trace is not None:
            since_ns = _waiting_since_ns(self.job.job)
            record_below(self.job.trace, f"wait {kind}", start_ns=min(since_ns, begun_ns))
        attributes: dict[str, str | int] = {
            "job_id": str(self.job.job.id),
            "claim_id": str(self.job.claim_id),
            "attempt": self.job.job.attempts,
        }
        with span(f"job {kind}", attributes, parent=self.job.trace, span_id=span_id_of(self.job.claim_id)):
            finished = await self._run()
        count("jobs_finished_total", kind=kind, outcome="fenced" if finished is None else self._outcome_name)
        observe("job_duration_seconds", time.monotonic() - begun, kind=kind)
        return finished

    async def _run(self) -> finishing.Finished | None:
        async with asyncio.TaskGroup() as group:
            self._work = group.create_task(self._handle())
            lease = group.create_task(self._keep_lease())
            watch = group.create_task(self._watch())
            await asyncio.wait({self._work})
            watch.cancel()
            finished = None if self.job.fenced.is_set() else await self._finish(await self._explained(self._work))
            lease.cancel()
        return finished

    def preempt(self) -> None:
        """Cancel the handler, since the worker ends and the time for draining is over."""
        self._end_with(Preempted(reason="drain"))

    def lose_access(self) -> None:
        """End at once and write nothing: the database refuses this worker, and its lease will expire."""
        self._fence("the account of this worker is refused", ACCOUNT_REFUSED)

    def lose_device(self, failed: Failed) -> None:
        """Cancel the handler, since a device that it uses was quarantined."""
        self.job.has_stalled = True  # the loaded target may hang, too
        self._end_with(failed)

    async def _explained(self, work: asyncio.Task[Outcome | None]) -> Outcome | Cancelled:
        """Return the outcome; a failure while a device had a fault is that of the device, not of the job."""
        outcome = self._outcome(work)
        fault = await self._fault_since(self._sent_at) if isinstance(outcome, Failed) and outcome.is_charged else None
        return fault or outcome

    def _end_with(self, verdict: Outcome | None) -> None:
        if self._work is not None and not self._work.done():
            self._verdict = verdict
            self._work.cancel()

    def _outcome(self, work: asyncio.Task[Outcome | None]) -> Outcome | Cancelled:
        outcome = self._verdict if work.cancelled() else work.result()
        if self.job.cancelled.is_set():
            return Cancelled()
        if isinstance(outcome, Failed) and _is_full(self.job.settings.home):
            # A full disk makes any part of a job fail, with an error of its own.
            return Preempted(reason=STORAGE_FULL)
        return outcome or Failed(code="cancelled", message="The handler was cancelled by its own code.")

    async def _handle(self) -> Outcome | None:
        """Run the handler and map any error of its code, or of the plugins that it calls, to an outcome."""
        try:
            with holding():  # what the job opens is not evicted until it ends
                outcome = await self._handler(self.job)
            json.dumps(asdict(outcome), allow_nan=False)
        except Exception as error:  # noqa: BLE001 - the code of plugins may raise anything
            return self._explain(error)
        return outcome

    def _explain(self, error: Exception) -> Outcome | None:
        outcome = outcome_of(error)
        if isinstance(outcome, Failed):
            outcome = replace(outcome, message=process_masker.mask(outcome.message))
        names = {"kind": self.job.job.kind}
        if outcome is None:
            self.job.fenced.set()
        elif isinstance(outcome, Failed) and not self.job.cancelled.is_set():
            if isinstance(cause_of(error), VlmHyperBenchError):
                _LOG.warning("job.failed", **names, code=outcome.code, message=outcome.message)
            else:
                _LOG.error("job.crashed", **names, exc_info=error)
        return outcome

    async def _keep_lease(self) -> None:
        """Renew the lease until cancelled; cancel the handler if it cannot be renewed in time or the claim is lost."""
        timers = self._timers
        usual_s = timers.heartbeat_s * (_STOPPABLE_SHARE if self.job.job.params.get(STOPPABLE) else 1)
        pause_s = usual_s
        while True:
            await asyncio.sleep(pause_s * random.uniform(1 - _JITTER, 1 + _JITTER))  # noqa: S311 - spreads load only
            sent_at = time.monotonic()
            left_s = self._renewed_at + timers.self_fence_s - sent_at
            if left_s <= 0:
                return self._fence("the lease was not renewed in time", "not_renewed")
            try:
                async with asyncio.timeout(min(timers.statement_timeout_s, left_s)):
                    renewed = await self._renew()
            except (Unavailable, TimeoutError):
                count("lease_renewals_total", result="unavailable")
                pause_s = min(RETRY_S, timers.heartbeat_s / 4)
                continue
            count("lease_renewals_total", result="lost" if renewed is None else "renewed")
            if renewed is None:
                return self._fence("the claim is lost", "claim_lost")
            self._renewed_at = sent_at
            pause_s = usual_s
            if renewed.is_cancelled:
                self.job.cancelled.set()
            if renewed.is_paused:
                self.job.draining.set()
            if renewed.is_stopping:
                self.job.stopping.set()
            self.job.note_in_flight(renewed.in_flight)

    async def _renew(self) -> claims.Renewed | None:
        async with self.job.runtime.database.transaction() as session:
            return await claims.renew(
                session, job_id=self.job.job.id, claim_id=self.job.claim_id, lease_s=self._timers.lease_s
            )

    def _fence(self, why: str, reason: str) -> None:
        count("fenced_total", reason=reason)
        _LOG.warning("job.fenced", claim_id=str(self.job.claim_id), reason=why)
        self.job.fenced.set()
        self._end_with(None)

    async def _watch(self) -> None:
        """Cancel a handler that does not end after its run was cancelled, or that commits nothing for too long."""
        timers = self._timers
        cancelled_at: float | None = None
        limit_s: float | None = None
        while True:
            await asyncio.sleep(timers.heartbeat_s * _WATCH_SHARE)
            now = time.monotonic()
            if self.job.cancelled.is_set():
                cancelled_at = cancelled_at or now
                if now - cancelled_at > timers.cancel_term_s + timers.kill_s:
                    return self._end_with(None)
            elif STEPS[self.job.job.kind].writes_facts and now - self.job.committed_at > (limit_s or timers.stall_s):
                if limit_s is not None:
                    message = f"No sample was committed for {limit_s:g} s."
                    self.job.has_stalled = True
                    return self._end_with(Failed(code=STALLED, message=message))
                with suppress(Unavailable):  # tried again until the database is back, or the lease is lost
                    limit_s = max(timers.stall_s, await self._stall_limit_s())

    async def _stall_limit_s(self) -> float:
        """Return how long the job's requests may delay a commit; 0 if it sends none."""
        job = self.job.job
        if STEPS[job.kind].asks is None:
            return 0.0
        async with self.job.runtime.database.transaction() as session:
            run = await runs.get(session, self.job.run_id)
        if run is None or job.range_start is None or job.range_end is None:
            return 0.0
        try:
            return stall_limit_s(run.pinned_spec(), job.kind, job.params, requests=job.range_end - job.range_start)
        except (InvalidInput, LookupError, ValueError):
            return 0.0  # the handler reports an error in the spec

    async def _finish(self, outcome: Outcome | Cancelled) -> finishing.Finished | None:
        """Write the outcome, with further tries while the database is not available, until the lease is lost."""
        self._outcome_name = type(outcome).__name__.lower()
        draw = random.random()  # noqa: S311 - spreads retries only
        while not self.job.fenced.is_set():
            with suppress(Unavailable):
                async with self.job.runtime.database.transaction() as session:
                    return await finishing.finish(
                        session, job_id=self.job.job.id, claim_id=self.job.claim_id, outcome=outcome, draw=draw
                    )
            await asyncio.sleep(RETRY_S)
        return None


def _waiting_since_ns(job: JobView) -> int:
    """Return since when a job waited: its creation, or its assignment for a further try, which has no known begin."""
    since = job.assigned_at if job.attempts > 1 and job.assigned_at is not None else job.created_at
    return round(since.timestamp() * 1e9)


def _is_full(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < FULL_BYTES
    except OSError:
        return False  # unknown, so the failure is reported as it is
