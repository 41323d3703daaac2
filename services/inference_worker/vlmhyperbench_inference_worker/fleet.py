"""What this worker keeps loaded: one target per device, replaced when another is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

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

    async def acquire(self, digest: str, load: Loader, *, secret_values: Mapping[str, str]) -> Serving:
        """Return the serving of a target with these secrets; a healthy resident one is used again.

        Any other is unloaded first, and one with other secrets is another.
        """
        async with self._lock:
            resident = self._serving
            if resident is not None and resident.is_for(digest, secret_values) and await resident.is_alive():
                return resident
            await self._unload()
            self._serving = await load()
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
