"""Send one request before all others, with the run's own options, to find an error of the configuration early.

The answer to a probe is no row of the run, and its time is not measured. A probe goes through the same body writer and
the same load generator as the samples.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vlmhyperbench.domain.causes import FailedRequest, find_refusal_of_all, read_failure
from vlmhyperbench.logs import SecretMasker
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.drive import ending
from vlmhyperbench_inference_worker.plan import Load, Phases, fill
from vlmhyperbench_inference_worker.refusals import refused
from vlmhyperbench_inference_worker.requests import PlannedRequest
from vlmhyperbench_inference_worker.serving import Serving
from vlmhyperbench_inference_worker.standby import Standby
from vlmhyperbench_inference_worker.work import Work
from vlmhyperbench_sdk.load import PhasePlan

_PHASE = 0


async def probe(job: ClaimedJob, work: Work, serving: Serving, standby: Standby) -> None:
    """Check that the target accepts the run's requests, unless it has answered requests with these options before.

    A probe that is refused for its prompt, or not answered, decides nothing: another sample is asked, or the run
    continues.

    Raises:
        TargetRefused: the target refuses what every request of the run asks for.
    """
    asked = [work.requests[ordinal] for ordinal in work.probes]
    if not asked or asked[0].options_sha256 in serving.answered_options:
        return
    failures: list[FailedRequest] = []
    for request in asked:
        failed = await _ask(job, work, serving, standby, request)
        if failed is None:
            serving.answered_options.add(request.options_sha256)
            return
        failures = [*failures, failed]
        if not failed.needs_another_probe:
            break
    refusal = find_refusal_of_all(failures)
    if refusal is not None:
        raise refused(refusal, serving)


async def _ask(
    job: ClaimedJob, work: Work, serving: Serving, standby: Standby, request: PlannedRequest
) -> FailedRequest | None:
    """Send one request and return how it failed; None if it was answered, or the job was interrupted before."""
    async with standby.lend() as process:
        # The load generator for the samples starts meanwhile, so that they do not wait for it.
        standby.refill()
        plan = PhasePlan(no=_PHASE, kind="warmup", count=1, params={"in_flight": 1})
        load = Load(process=process, phases=Phases(plans=[plan], requests=[request], schedules={}), serving=serving)
        await fill(load, work, job.runtime.storage)
        with job.extended_stall_limit(work.spec.limits.request_timeout_s * work.spec.limits.tries):
            async with ending(job, process):
                await process.ready(serving.measured.secrets)
                await process.wait()
        rows = await asyncio.to_thread(_read, sorted(process.record_folder.glob("*.parquet")))
    return _failed(rows[0], serving) if rows else None


def _read(segments: Sequence[Path]) -> list[dict[str, Any]]:
    import polars

    return [row for path in segments for row in polars.read_parquet(path).to_dicts()]


def _failed(row: dict[str, Any], serving: Serving) -> FailedRequest | None:
    error = SecretMasker(serving.secret_values).mask_cut(row["error"]) if row["error"] else None
    return read_failure(status=row["status"], http_status=row["http_status"], error=error)
