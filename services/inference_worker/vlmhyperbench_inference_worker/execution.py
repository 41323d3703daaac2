"""Choose how the models of a job's pipeline are loaded, by what they need and what this worker has."""

from __future__ import annotations

import asyncio
from functools import partial

from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.data.pipeline_memory import dropped_of, estimated_need, execution_of, models_of, names_of
from vlmhyperbench.db import memory
from vlmhyperbench.domain.execution import Execution, Residency
from vlmhyperbench.domain.needs import UNKNOWN, MemoryNeed
from vlmhyperbench.domain.targets import ModelTarget
from vlmhyperbench.errors import Conflict
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.fleet import Fleet
from vlmhyperbench_inference_worker.room import Room, as_placed, usable_of
from vlmhyperbench_inference_worker.work import Work

DROPPED = "dropped_to_fit"
"""Code of the step of a model that was left out so that the others fit together."""


async def residency_of(
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
    targets = models_of(pipeline)
    device = as_placed(room.devices[0])
    measure = partial(
        usable_of,
        Room(devices=room.devices[:1]),
        reserved=partial(fleet.reserved_beside, targets, in_use=True),
        held=sum(map(fleet.memory_bytes, targets)),
    )
    usable = await asyncio.to_thread(measure)
    chosen, _ = execution_of(
        pipeline,
        await _needs(job, targets, cache),
        device,
        usable.devices[0] if device.is_accelerator else usable.host,
        allow_lossy=work.spec.limits.allow_lossy,
    )
    digest = work.spec.target_digest
    if digest in dropped_of(pipeline, chosen):
        own = names_of(pipeline)[digest]
        message = f"The model {own} is left out, so that the others of {pipeline.pipeline} stay loaded together."
        raise Conflict(message, code=DROPPED)
    if chosen.mode == "sequential":
        return chosen, Residency(is_sequential=True)
    return chosen, Residency(keeps=frozenset(targets))


async def _needs(job: ClaimedJob, targets: dict[str, ModelTarget], cache: ModelCache) -> dict[str, MemoryNeed]:
    """Return what was measured or estimated of each model; one that nobody has estimated is estimated here."""
    margin = job.settings.memory_margin
    async with job.runtime.database.transaction() as session:
        known = await memory.needs_of(session, list(targets), margin=margin)
    needs = {digest: known.get(digest, UNKNOWN) for digest in targets}
    for digest, target in targets.items():
        if needs[digest].device_bytes is None and not needs[digest].peaks:
            needs[digest] = await asyncio.to_thread(estimated_need, target, cache, margin=margin)
    return needs
