"""Bring the target of a job up: read its keys, load it or use what is loaded, record what engine it is."""

from __future__ import annotations

from dataclasses import asdict

from vlmhyperbench.db.claims import ClaimRecord
from vlmhyperbench.domain.planning import target_digest
from vlmhyperbench.domain.specs import ImportTarget
from vlmhyperbench.errors import Conflict
from vlmhyperbench.registry.plugins import require_source
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.bench import Bench
from vlmhyperbench_inference_worker.fleet import gateway_options
from vlmhyperbench_inference_worker.keys import read_keys
from vlmhyperbench_inference_worker.serving import Serving, WantedTarget
from vlmhyperbench_inference_worker.watch import machine
from vlmhyperbench_inference_worker.work import Work


async def bring_up(job: ClaimedJob, work: Work, bench: Bench) -> Serving:
    """Return the target of a job, loaded and ready.

    Raises:
        Conflict: the run's answers come from a file; a model file or the adapter's code is not the one that was pinned.
        InvalidInput: a parameter is wrong, or the adapter is not allowed.
        NotFound: a model file or a secret is missing.
        Unavailable: gateway or engine did not come up.
        Fenced: the claim is lost.
    """
    bench.standby.refill()  # it starts while the target is loaded
    wanted = await _wanted(job, work)
    with job.loading(wanted.load_timeout_s):
        serving = await bench.fleet.acquire(wanted, gateway_options(job.context))
    await job.set_resident(bench.fleet.resident)
    engine = serving.engine
    added = ClaimRecord(
        engine=asdict(engine) if engine else None,
        machine=machine(bench.devices),
        measured_at=serving.measured.through,
        cores=bench.ground(engine).cores,
    )
    await job.record_claim(added)
    return serving


async def _wanted(job: ClaimedJob, work: Work) -> WantedTarget:
    target = work.spec.target
    if isinstance(target, ImportTarget):
        raise Conflict("The run's answers come from a file; there is no model to load.")
    require_source(target.adapter, f"adapter {target.backend_class!r}")
    return WantedTarget(
        digest=target_digest(work.spec),
        target=target,
        secrets=await read_keys(job, work),
        load_timeout_s=work.spec.limits.load_timeout_s,
    )
