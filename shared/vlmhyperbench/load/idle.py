"""Wait until a server is idle: it answers a request as fast as before the first load."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable

from vlmhyperbench.analysis.load_result import LoadResult
from vlmhyperbench.analysis.results import Distribution
from vlmhyperbench.load.workload import Workload
from vlmhyperbench_sdk.errors import Unavailable

SLOWER = 2.0
SLACK_MS = 20.0
"""The first token may take `SLOWER` times as long as at first, or `SLACK_MS` longer, whichever is more."""

MAX_SECONDS = 120.0
PAUSE_SECONDS = 0.25
TRIES = 3
"""How many requests the idle server may fail to answer."""

IDLE_SEED = 1 << 40


class Idle:
    """Sends one request at a time: `begin` before a series of loads, `wait` after each."""

    def __init__(self, workload: Workload, ask: Callable[[Workload], Awaitable[LoadResult]]) -> None:
        """Remember the load; nothing is sent yet.

        Args:
            workload: The load; the requests are like its own, each with another seed.
            ask: Measures a load.
        """
        self._probe = dataclasses.replace(
            workload,
            scenario="single_stream",
            requests=1,
            duration_s=None,
            arrivals=None,
            max_in_flight=None,
            trace=(),
            warmup=0,
            processes=1,
            is_at_least=False,
            min_requests=1,
            samples_per_query=0,
            baseline=0,
            conversations=None,
            turns=1,
        )
        self._measure = ask
        self._asked = 0
        self._first_ms = 0.0
        self.latency_ms = 0.0
        """Latency of the first request."""

    async def begin(self) -> float:
        """Send a warm-up request and a measured one; return the time to first token in ms.

        Raises:
            Unavailable: it does not answer.
        """
        await self._ask()
        said = ""
        for _ in range(TRIES):
            result = await self._ask()
            ttft, latency = _median(result, "ttft_user_ms"), _median(result, "latency_ms")
            if ttft is not None and latency is not None:
                self._first_ms, self.latency_ms = ttft, latency
                return ttft
            said = ", ".join(result.errors) or "no token"
        raise Unavailable(f"Nothing was measured: the idle server answered each of {TRIES} requests with {said}.")

    async def wait(self) -> float | None:
        """Send requests until one is as fast as at first; return the seconds that took, None after `MAX_SECONDS`."""
        began_s = time.monotonic()
        while True:
            asked_s = time.monotonic()
            ttft = _median(await self._ask(), "ttft_user_ms")
            if ttft is not None and ttft <= max(SLOWER * self._first_ms, self._first_ms + SLACK_MS):
                return asked_s - began_s
            if time.monotonic() - began_s > MAX_SECONDS:
                return None
            await asyncio.sleep(PAUSE_SECONDS)

    async def _ask(self) -> LoadResult:
        # A cached prompt is answered faster, so no seed is used twice, and none of a measured load.
        self._asked += 1
        seed = self._probe.seed ^ (IDLE_SEED + self._asked)
        return await self._measure(dataclasses.replace(self._probe, seed=seed))


def _median(result: LoadResult, name: str) -> float | None:
    found = result.metrics[name]
    return found.p50 if isinstance(found, Distribution) else None
