"""The scheduler's loop, which ticks every second and when it is woken: reap, advance, decide, write, publish."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine

from vlmhyperbench.db.engine import DATABASE_REFUSED
from vlmhyperbench.db.leadership import Leadership
from vlmhyperbench.db.schema import check_schema
from vlmhyperbench.domain.scheduling import MAX_ASSIGNED, Assign, decide
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.logs import get_logger
from vlmhyperbench.monitoring.recording import observe, set_gauge
from vlmhyperbench.queues.ringing import Bell
from vlmhyperbench.runtime import Runtime
from vlmhyperbench_scheduler import window
from vlmhyperbench_scheduler.effects import Effects

_LOG = get_logger(__name__)


class Loop:
    """Ticks while this process leads; waits while another process leads or the database is not available."""

    def __init__(
        self,
        runtime: Runtime,
        bell: Bell,
        leadership: Leadership,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runtime = runtime
        self._leadership = leadership
        self._timers = runtime.settings.timers
        self._clock = clock
        self._effects = Effects(runtime, bell)
        self._is_leading = False
        self._is_away = False
        self._has_reached = False
        """The database has answered: an account that it refuses later may be that of a server that is replaced."""
        self._is_behind = False
        """The last tick assigned as many jobs as one may, so that the next one follows at once."""
        self._reaps_from = float("inf")

    async def run(self, stop: asyncio.Event) -> None:
        """Tick until `stop` is set."""
        while not stop.is_set():
            leads = await self.step()
            if leads and self._is_behind:
                continue
            pause = self._runtime.bus.wait_wake(self._timers.tick_s) if leads else asyncio.sleep(self._timers.tick_s)
            await _until(stop, pause)
        await self._leadership.close()

    async def step(self) -> bool:
        """Tick once if this process leads; return whether it leads.

        Raises:
            NotReady: the schema of the database is not that of this version.
            Unavailable: the database refuses the account, and has never answered.
        """
        try:
            if not self._has_reached:
                await check_schema(self._runtime.database)
            leads = await self._leadership.hold()
            self._has_reached = True
            if leads and not (self._is_leading and not self._is_away):
                self._reaps_from = self._clock() + self._timers.no_reap_s
                _LOG.info("scheduler.leads", reaps_in_s=self._timers.no_reap_s)
            self._is_leading, self._is_away = leads, False
            set_gauge("scheduler_leads", int(leads))
            if leads:
                begun = time.perf_counter()
                await self.tick(is_reaping=self._clock() >= self._reaps_from)
                observe("scheduler_tick_duration_seconds", time.perf_counter() - begun)
        except Unavailable as error:
            if error.code == DATABASE_REFUSED and not self._has_reached:
                raise
            if not self._is_away:
                _LOG.warning("scheduler.database_away", reason=str(error))
            self._is_away = True
            set_gauge("scheduler_leads", 0)
            return False
        return leads

    async def tick(self, *, is_reaping: bool) -> None:
        """Do everything that is due; the effects of a step are seen by the next step or the next tick."""
        timers = self._timers
        if is_reaping:
            await self._effects.reap(grace_s=timers.reap_grace_s)
            await self._effects.forget(after_s=timers.forget_worker_s)
        await self._effects.advance()
        margin = self._runtime.settings.memory_margin
        seen = await window.load(self._runtime.database, stale_s=timers.stale_worker_s, margin=margin)
        decisions = decide(seen, unclaimed_s=timers.unclaimed_s, hold_s=timers.hold_s, unfit_s=timers.unfit_s)
        self._is_behind = sum(isinstance(decision, Assign) for decision in decisions) >= MAX_ASSIGNED
        await self._effects.apply(decisions)
        await self._effects.publish()


async def _until(stop: asyncio.Event, pause: Coroutine[object, object, object]) -> None:
    """Wait until the pause ends or `stop` is set."""
    tasks = [asyncio.ensure_future(pause), asyncio.ensure_future(stop.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
