"""What this worker keeps loaded: one target at a time, replaced when another is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from vlmhyperbench.worker.claims import WorkerContext
from vlmhyperbench.worker.gateway import GatewayOptions
from vlmhyperbench_inference_worker.serving import Serving, WantedTarget


def gateway_options(context: WorkerContext) -> GatewayOptions:
    """Say how a worker's gateways are started: engines and body writers get the same environment as the gateway."""
    settings = context.settings
    return GatewayOptions(
        environment=replace(settings.engine_environment, variables=context.label),
        log=settings.home / "logs" / f"gateway-{context.name}.log",
        policy=settings.url_policy,
        lock_fds=context.lock_fds,
    )


class Fleet:
    """Residency of one slot: a target stays loaded until another one is needed, or the worker ends."""

    def __init__(self) -> None:
        self._serving: Serving | None = None
        self._lock = asyncio.Lock()

    @property
    def resident(self) -> Sequence[str]:
        """Digests of the targets that are loaded now."""
        return [self._serving.wanted.digest] if self._serving is not None else []

    async def acquire(self, wanted: WantedTarget, options: GatewayOptions) -> Serving:
        """Return the serving of a target; a healthy one that is loaded is used again, any other is unloaded first.

        Raises:
            VlmHyperBenchError: it cannot be loaded, see `Serving.start`.
        """
        async with self._lock:
            loaded = self._serving
            is_wanted = loaded is not None and (loaded.wanted.digest, loaded.wanted.secrets) == (
                wanted.digest,
                wanted.secrets,
            )
            if loaded is not None and is_wanted and await loaded.is_alive():
                return loaded
            await self._unload()
            self._serving = await Serving.start(wanted, options)
            return self._serving

    async def discard(self) -> None:
        """Unload what is loaded: it is broken, or the worker ends."""
        async with self._lock:
            await self._unload()

    async def _unload(self) -> None:
        # Known until it has ended: where this is cancelled, the next one ends it.
        if self._serving is not None:
            await self._serving.close()
            self._serving = None
