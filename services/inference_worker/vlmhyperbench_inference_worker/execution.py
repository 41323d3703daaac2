"""Choose how the models of a job's pipeline are loaded, by what they need and what this worker has."""

from __future__ import annotations

import asyncio
import sys

from vlmhyperbench.data.estimating import estimate_memory
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.db import memory
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.execution import Execution, Residency, choose_execution
from vlmhyperbench.domain.needs import UNKNOWN, MemoryNeed, Need
from vlmhyperbench.domain.pipelines import PipelineTarget, asked_models, can_do_without
from vlmhyperbench.domain.refusals import MemoryRefusal
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench.errors import Conflict, DoesNotFit
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench.worker.devices import DeviceInfo
from vlmhyperbench_inference_worker.fleet import Fleet
from vlmhyperbench_inference_worker.room import Room, as_placed, visible_to_engine
from vlmhyperbench_inference_worker.work import Work
from vlmhyperbench_sdk.free_memory import free_memory

DROPPED = "dropped_to_fit"
"""Code of the step of a model that was left out so that the others fit together."""


async def execution_of(
    job: ClaimedJob, work: Work, room: Room, cache: ModelCache, fleet: Fleet
) -> tuple[Execution | None, Residency]:
    """Return how the models of the job's pipeline are loaded, and what that means to this one; None without a pipeline.

    Raises:
        DoesNotFit: the pipeline states `persistent`, and its models do not fit together.
        Conflict: this model is left out so that the others fit together; code `dropped_to_fit`.
    """
    pipeline = work.pipeline
    if pipeline is None or not room.devices:
        return None, Residency()
    targets = _targets(pipeline)
    device = room.devices[0]
    known = await _needs(job, targets, cache)
    needs: dict[str, int | None] = {}
    for digest, target in targets.items():
        need = Need(kind=job.job.kind, target_digest=digest, memory=known[digest])
        needs[f"{target.model} {digest[:8]}"] = need.bytes_on(as_placed(device))
    names = dict(zip(targets, needs, strict=True))
    held = sum(fleet.memory_bytes(digest) for digest in targets)
    chosen = choose_execution(
        pipeline.execution_mode,
        needs,
        min(device.memory_bytes, await asyncio.to_thread(_free, device) + held),
        name=pipeline.pipeline,
        memory="accelerator" if device.kind != "cpu" else "machine",
        optional=[name for digest, name in names.items() if can_do_without(pipeline, digest)],
        allow_lossy=work.spec.limits.allow_lossy,
    )
    if isinstance(chosen, MemoryRefusal):
        raise DoesNotFit(chosen.message, cure=chosen.cure, facts=chosen.facts)
    own = names.get(work.spec.target_digest)
    if own in chosen.dropped:
        message = f"The model {own} is left out, so that the others of {pipeline.pipeline} stay loaded together."
        raise Conflict(message, code=DROPPED)
    if chosen.mode == "sequential":
        return chosen, Residency(is_sequential=True)
    return chosen, Residency(keeps=frozenset(targets))


def _targets(pipeline: PipelineTarget) -> dict[str, ModelTarget]:
    """Return the distinct models of a pipeline that this machine loads, by digest."""
    found = (asked.model.target for asked in asked_models(pipeline))
    return {digest_of(target): target for target in found if isinstance(target, ModelTarget)}


async def _needs(job: ClaimedJob, targets: dict[str, ModelTarget], cache: ModelCache) -> dict[str, MemoryNeed]:
    """Return what was measured or estimated of each model; one that nobody has estimated is estimated here."""
    margin = job.settings.memory_margin
    async with job.runtime.database.transaction() as session:
        known = await memory.needs_of(session, list(targets), margin=margin)
    needs = {digest: known.get(digest, UNKNOWN) for digest in targets}
    for digest, target in targets.items():
        if needs[digest].device_bytes is None and not needs[digest].peaks:
            estimate = await asyncio.to_thread(estimate_memory, target, cache)
            needs[digest] = memory.need_of(estimate, margin=margin) if estimate is not None else UNKNOWN
    return needs


def _free(device: DeviceInfo) -> int:
    is_gpu = device.kind == "gpu"
    free = free_memory(visible_to_engine([device] if is_gpu else []))
    known = free.device_bytes if is_gpu else free.host_bytes
    return known if known is not None else sys.maxsize
