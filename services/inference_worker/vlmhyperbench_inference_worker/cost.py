"""What a claim cost and what else ran on its machine, recorded at once because it cannot be measured again."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict

from vlmhyperbench.db.claims import ClaimRecord
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.units import NS_PER_S
from vlmhyperbench.load.neighbours import Neighbours, among_neighbours
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.drive import Driven
from vlmhyperbench_inference_worker.watch import Watch


@asynccontextmanager
async def sending(job: ClaimedJob, ground: Ground) -> AsyncIterator[Neighbours]:
    """Record that the claim sends requests from now on, and yield the other measurements on this machine.

    This is recorded before the first request, so that a claim that is timed at the same time finds it even if this
    process is killed.
    """
    now_ns = time.monotonic_ns()
    await job.record_claim(
        ClaimRecord(sending_from_ns=now_ns, anchor_monotonic_ns=now_ns, anchor_wall_ns=time.time_ns())
    )
    with among_neighbours(str(job.claim_id), ground) as neighbours:
        yield neighbours


async def record_cost(job: ClaimedJob, driven: Driven, watch: Watch, neighbours: Neighbours) -> None:
    """Record the clocks, the client's own cost, the other measurements on this machine, and a summary of its devices.

    Raises:
        Fenced: the claim is lost.
    """
    neighbours.leave()
    others = [{"mark": other.mark, "pid": other.pid} for other in neighbours.disturbers]
    start, end = driven.first_sent_ns, driven.last_end_ns
    summary = watch.summary(start, end) if start is not None and end is not None else None
    # By these, later plans know how long an answer takes, and how long a job beside its answers.
    measured = {
        "answers": len(driven.ordinals),
        "answering_s": (end - start) / NS_PER_S if start is not None and end is not None else None,
    }
    added = ClaimRecord(
        client={**asdict(driven.end), "beside": others, **measured} if driven.end else None,
        resources=asdict(summary) if summary else None,
        # Both clocks are read now: the wall clock may have been set since the load generator started.
        anchor_monotonic_ns=time.monotonic_ns(),
        anchor_wall_ns=time.time_ns(),
        sending_until_ns=driven.sending_until_ns or time.monotonic_ns(),
    )
    await job.record_claim(added)
