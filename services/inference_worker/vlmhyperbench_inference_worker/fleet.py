"""The target that this worker keeps loaded: one at a time, replaced when a job wants another.

One on a rented machine is unloaded when no job has wanted it for some time, which returns the machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from vlmhyperbench.domain.environments import RentedSpec
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench.sources import require_source
from vlmhyperbench.worker.gateway import GatewayOptions
from vlmhyperbench_inference_worker.serving import Serving, WantedTarget


class Fleet:
    """Residency: one target stays loaded until another is needed, its rented machine is idle, or the worker ends."""

    def __init__(self) -> None:
        self._serving: Serving | None = None
        self._lock = asyncio.Lock()
        self._idle: asyncio.Task[None] | None = None
        """Waits to unload a target on a rented machine."""

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

    async def loaded(self, wanted: WantedTarget) -> Serving | None:
        """Return the serving of a target if it is loaded and healthy.

        Raises:
            Conflict: the code of the adapter is not the code that was pinned.
        """
        self._claim(wanted)
        async with self._lock:
            return await self._find(wanted)

    async def acquire(self, wanted: WantedTarget, options: GatewayOptions) -> Serving:
        """Return the serving of a target: the loaded one if it is the same and healthy; any other is unloaded first.

        Raises:
            Conflict: the code of the adapter is not the code that was pinned.
            VlmHyperBenchError: it cannot be loaded, see `Serving.start`.
        """
        self._claim(wanted)
        async with self._lock:
            if (serving := await self._find(wanted)) is not None:
                return serving
            await self._unload()
            self._serving = await Serving.start(wanted, options)
            return self._serving

    def _claim(self, wanted: WantedTarget) -> None:
        """Keep the machine of what is loaded, and check the code of the adapter."""
        self._stop_waiting()
        require_source(wanted.target.adapter, f"adapter {wanted.target.backend_class!r}")

    async def _find(self, wanted: WantedTarget) -> Serving | None:
        loaded = self._serving
        if loaded is None or (loaded.wanted.digest, loaded.wanted.secrets) != (wanted.digest, wanted.secrets):
            return None
        return loaded if await loaded.is_alive() else None

    def release(self) -> None:
        """Note that no job asks the target any more."""
        target = self._serving.wanted.target if self._serving is not None else None
        spec = target.environment if isinstance(target, ModelTarget) else None
        if isinstance(spec, RentedSpec):
            self._stop_waiting()
            self._idle = asyncio.create_task(self._discard_after(spec.max_idle_minutes * 60), name="idle machine")

    async def _discard_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.discard()

    def _stop_waiting(self) -> None:
        if self._idle is not None and self._idle is not asyncio.current_task():
            self._idle.cancel()
            self._idle = None

    async def discard(self) -> None:
        """Unload the target, because it is broken, its machine is idle, or the worker ends."""
        self._stop_waiting()
        async with self._lock:
            await self._unload()

    async def _unload(self) -> None:
        # The serving is forgotten after it has ended: if this is cancelled, the next call ends it.
        if self._serving is not None:
            await self._serving.close()
            self._serving = None
