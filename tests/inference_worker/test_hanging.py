"""A sample that hangs gets its row, however long the others have been done.

The fixtures and helpers are those of `test_drive`.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.inference_worker.test_drive import Start, ask, claimed, remote, rows_of, runtime, start
from vlmhyperbench.domain.outcomes import Complete, Outcome
from vlmhyperbench.domain.states import JobState
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.worker.claim_runner import ClaimRunner
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_simulated.server import start_server
from vlmhyperbench_simulated.simulation import Simulation

__all__ = ["runtime", "start"]

pytestmark = pytest.mark.anyio

TIMEOUT_S = 2.0


async def test_a_sample_that_hangs_longer_than_the_stall_limit_is_an_error_row_and_its_job_is_done(
    runtime: Runtime, start: Start, tmp_path: Path
) -> None:
    async with await start_server(Simulation(ttft_ms=600_000)) as server:
        job, served = await claimed(runtime, 1), await start(remote(server.url))
        timers = job.settings.timers.model_copy(update={"stall_s": TIMEOUT_S / 2})
        job.settings = job.settings.model_copy(update={"timers": timers})
        async with runtime.database.transaction() as session:
            limits = text(
                "UPDATE run SET spec = jsonb_set(spec, '{limits,request_timeout_s}', to_jsonb(CAST(:limit AS float)))"
            )
            await session.execute(limits, {"limit": TIMEOUT_S})

        async def handler(job: ClaimedJob) -> Outcome:
            await ask(job, served, tmp_path, requests=1, timeout_s=TIMEOUT_S)
            return Complete()

        finished = await ClaimRunner(job, handler, sent_at=time.monotonic()).run()
    assert finished is not None
    assert finished.state is JobState.DONE
    assert await rows_of(job) == [(0, "timeout")]
