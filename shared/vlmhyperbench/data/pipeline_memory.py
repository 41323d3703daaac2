"""Choose how the models of a pipeline are loaded, in a run and served alike, by their needs and the usable memory."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from vlmhyperbench.data.estimating import estimate_memory
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.db.memory import need_of
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.execution import Execution, choose_execution
from vlmhyperbench.domain.needs import UNKNOWN, Capacity, MemoryNeed, Need
from vlmhyperbench.domain.pipelines import PipelineTarget, asked_models, can_do_without
from vlmhyperbench.domain.placement import DeviceNow
from vlmhyperbench.domain.refusals import MemoryRefusal
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.domain.targets import ModelTarget
from vlmhyperbench.errors import DoesNotFit
from vlmhyperbench_sdk.free_memory import FreeMemory


def execution_of(
    pipeline: PipelineTarget,
    needs: Mapping[str, MemoryNeed],
    device: Capacity,
    have: int,
    *,
    allow_lossy: bool = False,
) -> tuple[Execution, dict[str, int | None]]:
    """Return the mode, and what each model needs, by its digest: loaded as it is asked, since the rule must hold.

    Args:
        pipeline: The pipeline.
        needs: Digest of each of its models → what was measured or estimated of it.
        device: Where they are loaded.
        have: Bytes of it that they may use.
        allow_lossy: Whether optional models may be left out so that the others stay loaded together.

    Raises:
        DoesNotFit: the pipeline states `persistent`, and its models do not fit together.
    """
    names = names_of(pipeline)
    known = {
        digest: Need(kind=StepKind.MEMBER, target_digest=digest, memory=needs[digest].whole).bytes_on(device)
        for digest in names
    }
    chosen = choose_execution(
        pipeline.execution_mode,
        {names[digest]: need for digest, need in known.items()},
        have,
        name=pipeline.pipeline,
        memory="accelerator" if device.is_accelerator else "machine",
        optional=[name for digest, name in names.items() if can_do_without(pipeline, digest)],
        allow_lossy=allow_lossy,
    )
    if isinstance(chosen, MemoryRefusal):
        raise DoesNotFit(chosen.message, cure=chosen.cure, facts=chosen.facts)
    return chosen, known


def execution_here(
    pipeline: PipelineTarget, cache: ModelCache, usable: FreeMemory, *, margin: float, allow_lossy: bool = False
) -> tuple[Execution, dict[str, int | None]]:
    """Return `execution_of` on this machine by estimates alone: on its accelerators, else in its memory.

    Args:
        pipeline: The pipeline.
        cache: Where the files of its models lie.
        usable: What a load may use now.
        margin: By which estimates are multiplied.
        allow_lossy: As in `execution_of`.

    Raises:
        DoesNotFit: the pipeline states `persistent`, and its models do not fit together.
    """
    is_accelerated = bool(usable.devices)
    known = usable.device_bytes if is_accelerated else usable.host_bytes
    have = known if known is not None else sys.maxsize
    needs = {digest: estimated_need(target, cache, margin=margin) for digest, target in models_of(pipeline).items()}
    device = DeviceNow(no=0, memory_bytes=have, is_accelerator=is_accelerated)
    return execution_of(pipeline, needs, device, have, allow_lossy=allow_lossy)


def estimated_need(target: ModelTarget, cache: ModelCache, *, margin: float) -> MemoryNeed:
    """Return what a model needs by the estimate of its adapter, which nobody has stored."""
    estimate = estimate_memory(target, cache)
    return need_of(estimate, margin=margin) if estimate is not None else UNKNOWN


def dropped_of(pipeline: PipelineTarget, execution: Execution) -> set[str]:
    """Return the digests of the models that are left out so that the others fit together."""
    return {digest for digest, name in names_of(pipeline).items() if name in execution.dropped}


def models_of(pipeline: PipelineTarget) -> dict[str, ModelTarget]:
    """Return the distinct models of a pipeline that are loaded here, by digest; an endpoint is not one of them."""
    found = (asked.model.target for asked in asked_models(pipeline))
    return {digest_of(target): target for target in found if isinstance(target, ModelTarget)}


def names_of(pipeline: PipelineTarget) -> dict[str, str]:
    """Return what the models are called in the execution, by digest."""
    return {digest: f"{target.served_name} {digest[:8]}" for digest, target in models_of(pipeline).items()}
