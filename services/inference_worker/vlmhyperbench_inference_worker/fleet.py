"""The target that this worker keeps loaded: one at a time, replaced when a job wants another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from vlmhyperbench.sources import require_source
from vlmhyperbench.worker.gateway import GatewayOptions
from vlmhyperbench_inference_worker.serving import Serving, WantedTarget


class Fleet:
    """Residency: one target stays loaded until another target is needed, or the worker ends."""

    def __init__(self) -> None:
        self._serving: Serving | None = None
        self._lock = asyncio.Lock()

    @property
    def resident(self) -> Sequence[str]:
        """Digests of the targets that are loaded now."""
        return [self._serving.wanted.digest] if self._serving is not None else []

    @property
    def engine_pids(self) -> Sequence[int]:
        """Processes of the engines that are loaded now, as far as they run on this machine."""
        engine = self._serving.engine if self._serving is not None else None
        return [engine.pid] if engine is not None and engine.pid is not None else []

    @property
    def engine_log(self) -> Path | None:
        """Log of the engine that is loaded now."""
        return self._serving.engine_log if self._serving is not None else None

    async def acquire(self, wanted: WantedTarget, options: GatewayOptions) -> Serving:
        """Return the serving of a target: the loaded one if it is the same and healthy; any other is unloaded first.

        Raises:
            Conflict: the code of the adapter is not the code that was pinned.
            VlmHyperBenchError: it cannot be loaded, see `Serving.start`.
        """
        require_source(wanted.target.adapter, f"adapter {wanted.target.backend_class!r}")
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
        """Unload the target, because it is broken or the worker ends."""
        async with self._lock:
            await self._unload()

    async def _unload(self) -> None:
        # The serving is forgotten after it has ended: if this is cancelled, the next call ends it.
        if self._serving is not None:
            await self._serving.close()
            self._serving = None
