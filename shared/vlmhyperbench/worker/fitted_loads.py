"""Load a model as far down its ladder as the memory asks, and after an out of memory once on the next rung."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from vlmhyperbench.data.load_fitting import FittedLoad, LoadLadder
from vlmhyperbench.domain.targets import ModelTarget
from vlmhyperbench.errors import OutOfMemory
from vlmhyperbench.serving.memory_back import wait_until_back
from vlmhyperbench.worker.gateway import GatewayClient
from vlmhyperbench_sdk.gateway import LoadRequest, ModelStatus

FilesOf: TypeAlias = Callable[[ModelTarget], Awaitable[dict[str, str]]]
"""Returns role → path of a smaller quantisation that is loaded instead, after its files were compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model that is ready, and how it was loaded."""

    status: ModelStatus
    fitted: FittedLoad
    request: LoadRequest


async def load_fitted(
    gateway: GatewayClient,
    request: LoadRequest,
    ladder: LoadLadder,
    *,
    files_of: FilesOf,
    free: Callable[[], int | None],
    below: FittedLoad | None = None,
) -> LoadedModel:
    """Load a model with the first parameters that fit.

    Args:
        gateway: The gateway, which has no model yet.
        request: How it is loaded if everything fits.
        ladder: What may be given up.
        files_of: Files of a smaller quantisation.
        free: Returns the free bytes of the memory that it is loaded into; None if unknown.
        below: The load with which it ran out of memory while it answered; it is loaded on the next rung below.

    Raises:
        DoesNotFit: nothing is left to give up.
        VlmHyperBenchError: as `GatewayClient.load`.
    """
    fitted = await asyncio.to_thread(ladder.fit if below is None else lambda: ladder.below(below))
    free_before = await asyncio.to_thread(free)
    smaller = await _smaller(request, fitted, files_of)
    try:
        return LoadedModel(status=await gateway.load(smaller), fitted=fitted, request=smaller)
    except OutOfMemory:
        if free_before is not None:
            held = await asyncio.to_thread(ladder.held_bytes, fitted)
            await wait_until_back(free_before - held, held, free)
        lower = await asyncio.to_thread(ladder.after_out_of_memory, fitted)
        if lower is None:
            raise
        smaller = await _smaller(request, lower, files_of)
        return LoadedModel(status=await gateway.load(smaller), fitted=lower, request=smaller)


async def _smaller(request: LoadRequest, fitted: FittedLoad, files_of: FilesOf) -> LoadRequest:
    """Return how it is loaded after the steps of its ladder."""
    files = request.files if fitted.substitute is None else await files_of(fitted.substitute)
    return replace(request, engine_params=fitted.engine_params, files=files)
