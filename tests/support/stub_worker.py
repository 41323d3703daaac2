"""A real inference worker whose handler appends made-up rows: `python -m tests.support.stub_worker MODE`.

`finish` writes every missing row. `hang` writes two rows and waits for the order to stop; `stubborn` ignores it.
`crash` raises. What it runs in a child is in `add`.
"""

from __future__ import annotations

import asyncio
import sys

from vlmhyperbench.db import claims
from vlmhyperbench.db.views import NewChunk, NewFact
from vlmhyperbench.domain.outcomes import Complete, Outcome, Preempted
from vlmhyperbench.domain.states import FactStatus
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.logs import configure_logging
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.claims import ClaimedJob, Handler
from vlmhyperbench.worker.devices import devices_of_worker
from vlmhyperbench.worker.supervisor import run_worker

HUNG_ROWS = 2


async def append_missing(job: ClaimedJob, *, limit: int | None = None) -> None:
    """Append the rows that the shard lacks, one chunk each."""
    async with job.runtime.database.transaction() as session:
        missing = await claims.missing_ordinals(session, job.job)
    for no, ordinal in enumerate(missing[:limit]):
        row = NewFact(ordinal=ordinal, row=0, sample=ordinal, status=FactStatus.OK, request_sha256="0" * 64)
        key = f"runs/{job.run_id}/chunks/{job.claim_id}/1-{no}.parquet"
        chunk = NewChunk(phase=1, no=no, storage_key=key, sha256="0" * 64, size_bytes=1, rows=1)
        await job.append(chunk, [row])
        await job.progress(done=no + 1, total=len(missing))


async def finish(job: ClaimedJob) -> Outcome:
    """Do the whole shard."""
    await append_missing(job)
    return Complete()


async def hang(job: ClaimedJob) -> Outcome:
    """Do a part, then wait for somebody to end it."""
    await append_missing(job, limit=HUNG_ROWS)
    waits = [asyncio.ensure_future(event.wait()) for event in (job.cancelled, job.draining)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    return Preempted()


async def stubborn(job: ClaimedJob) -> Outcome:
    """Do a part, then never look up again."""
    await append_missing(job, limit=HUNG_ROWS)
    await asyncio.Event().wait()
    return Complete()


async def crash(job: ClaimedJob) -> Outcome:
    """Break as a plugin may."""
    raise RuntimeError(job.job.kind)


HANDLERS: dict[str, Handler] = {"finish": finish, "hang": hang, "stubborn": stubborn, "crash": crash}

if __name__ == "__main__":
    configure_logging("stub-worker")
    settings, handlers = Settings.load(), {StepKind.GENERATE: HANDLERS[sys.argv[1]]}
    devices = devices_of_worker(settings) if settings.devices else ()
    asyncio.run(run_worker(settings, kind="inference", handlers=handlers, devices=devices))
