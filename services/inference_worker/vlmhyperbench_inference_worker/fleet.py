"""What this worker keeps loaded: one target per device, replaced when another is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from vlmhyperbench_inference_worker.serving import Serving

Loader = Callable[[], Awaitable[Serving]]


class Fleet:
    """Residency of one slot: a target stays loaded until another one is needed, or the worker ends."""

    def __init__(self) -> None:
        self._serving: Serving | None = None
        self._lock = asyncio.Lock()

    @property
    def resident(self) -> Sequence[str]:
        """Digests of the targets that are loaded now."""
        return [self._serving.digest] if self._serving is not None else []

    async def acquire(self, digest: str, load: Loader) -> Serving:
        """Return the serving of a target; a healthy resident one is used again, any other is unloaded first."""
        async with self._lock:
            if self._serving is not None and self._serving.digest == digest and await self._serving.is_alive():
                return self._serving
            await self._unload()
            self._serving = await load()
            return self._serving

    async def discard(self) -> None:
        """Unload what is loaded: it is broken, or the worker ends."""
        async with self._lock:
            await self._unload()

    async def _unload(self) -> None:
        serving, self._serving = self._serving, None
        if serving is not None:
            await serving.close()
