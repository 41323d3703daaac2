"""Gateways that `pipeline serve` keeps: one that ends is started again at its port, and its model is loaded again.

The pauses are those with which the embedded stack restarts its processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NoReturn
from urllib.parse import urlsplit

from vlmhyperbench.cli.serve import CHECK_INTERVAL_S
from vlmhyperbench.errors import Unavailable, VlmHyperBenchError
from vlmhyperbench.local.supervisor.supervised import FIRST_PAUSE_S, HEALTHY_S, MAX_PAUSE_S
from vlmhyperbench.worker.gateway import GatewayClient, GatewayOptions
from vlmhyperbench_sdk.gateway import LoadRequest


@dataclass(eq=False, slots=True, kw_only=True)
class KeptGateway:
    """A running gateway, and how it is started again."""

    name: str
    """What its model is called."""
    options: GatewayOptions
    client: GatewayClient
    request: LoadRequest | None = None
    """How its model is loaded again; None: who asks the model loads it."""

    async def keep(self, tell: Callable[[str], None]) -> NoReturn:
        """Start it or its model again whenever one of them has ended, until cancelled.

        Args:
            tell: Is told what has ended, and why it cannot be started.
        """
        clock = asyncio.get_running_loop()
        pause, began = FIRST_PAUSE_S, clock.time()
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            reason = await self._why_lost()
            if reason is None:
                continue
            if clock.time() - began >= HEALTHY_S:
                pause = FIRST_PAUSE_S
            tell(f"{self.name} has failed: {reason} It is started again in {pause:.1f} s.")
            await asyncio.sleep(pause)
            pause = min(pause * 2, MAX_PAUSE_S)
            try:
                await self._restore()
            except (VlmHyperBenchError, OSError) as error:  # such as a full disk: tried again until it can be started
                tell(f"{self.name} cannot be started: {error}")
            else:
                tell(f"{self.name} has been started again.")
            began = clock.time()

    async def close(self) -> None:
        """End the gateway, and with it its engine."""
        await self.client.close()

    async def _why_lost(self) -> str | None:
        """Return why it is to be started again; a gateway that is too busy to answer is not."""
        if not self.client.is_running:
            return "its gateway has ended."
        if self.request is None:
            return None
        try:
            status = await self.client.status()
        except Unavailable:
            return None
        if status.state in {"error", "unloaded"}:
            return status.error or "its model is not loaded."
        return None

    async def _restore(self) -> None:
        if not self.client.is_running:
            port = urlsplit(self.client.base_url).port or 0
            await self.client.close()
            self.client = await GatewayClient.start(replace(self.options, port=port), key=self.client.key)
        if self.request is not None:
            await self.client.load(self.request)
