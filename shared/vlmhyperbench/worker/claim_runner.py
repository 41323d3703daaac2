"""The life of one claim: run the handler, keep the lease, fence ourselves when it cannot be kept, write the outcome."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from vlmhyperbench.db import claims, finishing, runs
from vlmhyperbench.domain.graph import STOPPABLE
from vlmhyperbench.domain.outcomes import STORAGE_FULL, Cancelled, Failed, Outcome, Preempted, cause_of, outcome_of
from vlmhyperbench.domain.stalling import stall_limit_s
from vlmhyperbench.domain.steps import STEPS
from vlmhyperbench.errors import InvalidInput, Unavailable, VlmHyperBenchError
from vlmhyperbench.logs import get_logger
from vlmhyperbench.worker.children import STALLED
from vlmhyperbench.worker.claims import RETRY_S, ClaimedJob, Handler

_LOG = get_logger(__name__)
_JITTER = 0.2
_STOPPABLE_SHARE = 0.2
"""Of the heartbeat: a shard that a rule may stop looks so often, so that its worker is soon free."""
FULL_BYTES = 4 * 1024 * 1024
"""A disk with less room than this is full: nothing can be concluded from a failure on it."""
_DEADLINES_S = 0.05
"""How exactly deadlines of cancelling and stalling are kept, as a share of the heartbeat."""


class ClaimRunner:
    """Runs one claim from the moment it was taken; `sent_at` is the monotonic instant at which the claim was sent."""

    def __init__(self, job: ClaimedJob, handler: Handler, *, sent_at: float) -> None:
        self.job = job
        self._handler = handler
        self._timers = job.settings.timers
        self._renewed_at = sent_at
        self._work: asyncio.Task[Outcome | None] | None = None
        self._verdict: Outcome | None = None
        """What is written when the handler is cancelled, instead of what it would have returned."""

    async def run(self) -> finishing.Finished | None:
        """Run the claim to its end and return where the job is then; None: the claim was lost, nothing was written."""
        async with asyncio.TaskGroup() as group:
            self._work = group.create_task(self._handle())
            lease = group.create_task(self._keep_lease())
            watch = group.create_task(self._watch())
            await asyncio.wait({self._work})
            watch.cancel()
            finished = None if self.job.fenced.is_set() else await self._finish(self._outcome(self._work))
            lease.cancel()
        return finished

    def preempt(self) -> None:
        """End the handler now: the worker ends, and the time for draining is over."""
        self._end_with(Preempted(reason="drain"))

    def _end_with(self, verdict: Outcome | None) -> None:
        if self._work is not None and not self._work.done():
            self._verdict = verdict
            self._work.cancel()

    def _outcome(self, work: asyncio.Task[Outcome | None]) -> Outcome | Cancelled:
        outcome = self._verdict if work.cancelled() else work.result()
        if self.job.cancelled.is_set():
            return Cancelled()
        if isinstance(outcome, Failed) and _is_full(self.job.settings.home):
            # Whatever it was that failed, it failed on a full disk, and every child says that in its own words.
            return Preempted(reason=STORAGE_FULL)
        return outcome or Failed(code="cancelled", message="The handler was cancelled by its own code.")

    async def _handle(self) -> Outcome | None:
        """Run the handler; the one guard for whatever its code (and the plugins below it) may raise."""
        try:
            outcome = await self._handler(self.job)
            json.dumps(asdict(outcome), allow_nan=False)
        except Exception as error:  # noqa: BLE001 - the door behind which a plugin's code runs
            return self._explain(error)
        return outcome

    def _explain(self, error: Exception) -> Outcome | None:
        outcome = outcome_of(error)
        names = {"job_id": str(self.job.job.id), "kind": self.job.job.kind}
        if outcome is None:
            self.job.fenced.set()
        elif isinstance(outcome, Failed) and not self.job.cancelled.is_set():
            if isinstance(cause_of(error), VlmHyperBenchError):
                _LOG.warning("job.failed", **names, code=outcome.code, message=outcome.message)
            else:
                _LOG.error("job.crashed", **names, exc_info=error)
        return outcome

    async def _keep_lease(self) -> None:
        """Renew until cancelled; a lease that cannot be renewed in time, or is another's, ends the handler."""
        timers = self._timers
        usual_s = timers.heartbeat_s * (_STOPPABLE_SHARE if self.job.job.params.get(STOPPABLE) else 1)
        pause_s = usual_s
        while True:
            await asyncio.sleep(pause_s * random.uniform(1 - _JITTER, 1 + _JITTER))  # noqa: S311 - spreads load only
            sent_at = time.monotonic()
            left_s = self._renewed_at + timers.self_fence_s - sent_at
            if left_s <= 0:
                return self._fence("not renewed in time")
            try:
                async with asyncio.timeout(min(timers.statement_timeout_s, left_s)):
                    renewed = await self._renew()
            except (Unavailable, TimeoutError):
                pause_s = min(RETRY_S, timers.heartbeat_s / 4)
                continue
            if renewed is None:
                return self._fence("held by another")
            self._renewed_at = sent_at
            pause_s = usual_s
            if renewed.is_cancelled:
                self.job.cancelled.set()
            if renewed.is_paused:
                self.job.draining.set()
            if renewed.is_stopping:
                self.job.stopping.set()

    async def _renew(self) -> claims.Renewed | None:
        async with self.job.runtime.database.transaction() as session:
            return await claims.renew(
                session, job_id=self.job.job.id, claim_id=self.job.claim_id, lease_s=self._timers.lease_s
            )

    def _fence(self, why: str) -> None:
        _LOG.warning("job.fenced", job_id=str(self.job.job.id), claim_id=str(self.job.claim_id), reason=why)
        self.job.fenced.set()
        self._end_with(None)

    async def _watch(self) -> None:
        """End a handler that does not stop after its run was cancelled, or that commits nothing for too long."""
        timers = self._timers
        cancelled_at: float | None = None
        limit_s: float | None = None
        while True:
            await asyncio.sleep(timers.heartbeat_s * _DEADLINES_S)
            now = time.monotonic()
            if self.job.cancelled.is_set():
                cancelled_at = cancelled_at or now
                if now - cancelled_at > timers.cancel_term_s + timers.kill_s:
                    return self._end_with(None)
            elif STEPS[self.job.job.kind].writes_facts and now - self.job.committed_at > (limit_s or timers.stall_s):
                if limit_s is not None:
                    message = f"No sample was committed for {limit_s:g} s."
                    return self._end_with(Failed(code=STALLED, message=message))
                with suppress(Unavailable):  # asked again until the database is back, or the lease is lost
                    limit_s = max(timers.stall_s, await self._stall_limit_s())

    async def _stall_limit_s(self) -> float:
        """Return for how long the requests of the job may keep it from committing; 0 where it sends none."""
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
            return 0.0  # what is wrong with a spec is the handler's to say

    async def _finish(self, outcome: Outcome | Cancelled) -> finishing.Finished | None:
        """Write the outcome; tried again while the database is away, until the lease is lost."""
        draw = random.random()  # noqa: S311 - spreads retries only
        while not self.job.fenced.is_set():
            with suppress(Unavailable):
                async with self.job.runtime.database.transaction() as session:
                    return await finishing.finish(
                        session, job_id=self.job.job.id, claim_id=self.job.claim_id, outcome=outcome, draw=draw
                    )
            await asyncio.sleep(RETRY_S)
        return None


def _is_full(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < FULL_BYTES
    except OSError:
        return False  # nobody can tell; the failure stands for itself
