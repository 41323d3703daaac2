"""Choose how the models of a served pipeline are loaded, by their estimates and the memory of this machine."""

from __future__ import annotations

import sys

from vlmhyperbench.data.estimating import estimate_memory
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.execution import Execution, choose_execution
from vlmhyperbench.domain.fallbacks import LoadBytes
from vlmhyperbench.domain.pipelines import PipelineTarget, asked_models, can_do_without
from vlmhyperbench.domain.refusals import MemoryRefusal
from vlmhyperbench.errors import DoesNotFit
from vlmhyperbench_sdk.free_memory import free_memory


def execution_of(
    pipeline: PipelineTarget, cache: ModelCache, *, allow_lossy: bool = False
) -> tuple[Execution, dict[str, int | None]]:
    """Return the mode, and what each model is estimated to hold, by its digest.

    Accelerators are what is compared where the machine has some, else its memory. `allow_lossy`: optional models may be
    left out so that the others stay loaded together.

    Raises:
        DoesNotFit: the pipeline states `persistent`, and its models do not fit together.
    """
    free = free_memory()
    is_accelerated = bool(free.devices)
    needs: dict[str, int | None] = {}
    names = _names(pipeline)
    for asked in asked_models(pipeline):
        digest = digest_of(asked.model.target)
        if digest not in needs:
            estimate = estimate_memory(asked.model.target, cache)
            whole = LoadBytes(device=estimate.device_bytes, host=estimate.host_bytes) if estimate is not None else None
            is_real = estimate is not None and estimate.source != "declared"
            need = whole.with_margin if whole is not None and is_real else None
            needs[digest] = None if need is None else need.device if is_accelerated else need.device + need.host
    have = free.device_bytes if is_accelerated else free.host_bytes
    chosen = choose_execution(
        pipeline.execution_mode,
        {names[digest]: need for digest, need in needs.items()},
        have if have is not None else sys.maxsize,
        name=pipeline.pipeline,
        memory="accelerator" if is_accelerated else "machine",
        optional=[name for digest, name in names.items() if can_do_without(pipeline, digest)],
        allow_lossy=allow_lossy,
        if_unknown="persistent",
    )
    if isinstance(chosen, MemoryRefusal):
        raise DoesNotFit(chosen.message, cure=chosen.cure, facts=chosen.facts)
    return chosen, needs


def dropped_of(pipeline: PipelineTarget, execution: Execution) -> set[str]:
    """Return the digests of the models that are left out so that the others fit together."""
    return {digest for digest, name in _names(pipeline).items() if name in execution.dropped}


def _names(pipeline: PipelineTarget) -> dict[str, str]:
    """Return what the models are called in the execution, by digest."""
    targets = {digest_of(asked.model.target): asked.model.target for asked in asked_models(pipeline)}
    return {digest: f"{target.served_name} {digest[:8]}" for digest, target in targets.items()}
