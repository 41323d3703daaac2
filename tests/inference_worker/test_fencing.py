"""A lost claim asks its target nothing more, even while its handler cannot end.

The fixtures and helpers are those of `test_drive`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest

from tests.inference_worker.test_drive import Start, ask, claimed, remote, runtime, start, until_answered
from tests.support.processes import eventually
from vlmhyperbench.db.appending import Appended
from vlmhyperbench.db.views import NewChunk, NewFact
from vlmhyperbench.domain.outcomes import Complete, Outcome
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.worker.claim_runner import ClaimRunner
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_simulated.server import start_server
from vlmhyperbench_simulated.simulation import Simulation

__all__ = ["runtime", "start"]

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def appending_hangs(database_url: str) -> AsyncIterator[None]:
    """Stop the database process that appends rows, as a network that lost its answer would."""
    url = database_url.replace("+psycopg", "")
    async with await psycopg.AsyncConnection.connect(url) as locking, locking.transaction():
        await locking.execute("LOCK TABLE fact IN EXCLUSIVE MODE")
        waiting: list[int] = []

        async def is_waiting() -> bool:
            rows = await locking.execute("SELECT pid FROM pg_locks WHERE NOT granted AND relation = 'fact'::regclass")
            waiting[:] = [pid for (pid,) in await rows.fetchall()]
            return bool(waiting)

        await eventually(is_waiting, "rows are about to be appended")
        [backend] = waiting
        os.kill(backend, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(backend, signal.SIGCONT)


async def test_the_load_generator_of_a_lost_claim_is_killed_before_its_handler_has_ended(
    runtime: Runtime, start: Start, tmp_path: Path, fresh_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await start_server(Simulation(ttft_ms=40)) as server:
        job, served = await claimed(runtime, 1000), await start(remote(server.url))
        timers = job.settings.timers.model_copy(update={"heartbeat_s": 0.5, "self_fence_s": 3.0})
        job.settings = job.settings.model_copy(update={"timers": timers})
        append, has_left = job.append, asyncio.Event()

        async def append_and_tell(chunk: NewChunk, rows: Sequence[NewFact]) -> Appended:
            try:
                return await append(chunk, rows)
            finally:
                has_left.set()

        monkeypatch.setattr(job, "append", append_and_tell)

        async def handler(job: ClaimedJob) -> Outcome:
            await ask(job, served, tmp_path, requests=1000)
            return Complete()

        async def is_silent() -> bool:
            return len(server.open) == idle

        idle = len(server.open)
        running = asyncio.create_task(ClaimRunner(job, handler, sent_at=time.monotonic()).run())
        await until_answered(job)
        async with appending_hangs(fresh_database_url):
            has_left.clear()
            assert not await is_silent()
            await job.fenced.wait()
            await eventually(is_silent, "the load generator is dead")
            assert not has_left.is_set()
        assert await running is None
