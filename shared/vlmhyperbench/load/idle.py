"""Wait until a server is idle: it answers one request as fast as it did before anything was asked of it."""

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
"""The first token may take `SLOWER` times as long as at first, or so much longer, whichever is later."""

MOST_SECONDS = 120.0
PAUSE_SECONDS = 0.25
TRIES = 3
"""How often the idle server may be asked before it must have answered."""

IDLE_SEED = 1 << 40


class Idle:
    """Asks one request at a time; `begin` before a series of loads, `wait` after each."""

    def __init__(self, workload: Workload, ask: Callable[[Workload], Awaitable[LoadResult]]) -> None:
        """Begin without a question.

        Args:
            workload: The load; requests like its own are asked, each with a seed of its own.
            ask: Measures a load.
        """
        self._probe = dataclasses.replace(
            workload,
            scenario="single_stream",
            requests=1,
            duration_s=None,
            arrivals=None,
            most_in_flight=None,
            trace=(),
            warmup=0,
            processes=1,
            is_at_least=False,
            least_requests=1,
            samples_per_query=0,
            baseline=0,
            conversations=None,
            turns=1,
        )
        self._measure = ask
        self._asked = 0
        self._first_ms = 0.0
        self.latency_ms = 0.0
        """Of the request that was asked at first."""

    async def begin(self) -> float:
        """Ask the idle server twice, the first time to warm it up; return the time to the first token in ms.

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
        """Ask until it answers as fast as at first; return the seconds that took, None where it did not in time."""
        began_s = time.monotonic()
        while True:
            asked_s = time.monotonic()
            ttft = _median(await self._ask(), "ttft_user_ms")
            if ttft is not None and ttft <= max(SLOWER * self._first_ms, self._first_ms + SLACK_MS):
                return asked_s - began_s
            if time.monotonic() - began_s > MOST_SECONDS:
                return None
            await asyncio.sleep(PAUSE_SECONDS)

    async def _ask(self) -> LoadResult:
        # What a cache knows is answered faster, so nothing is asked twice, and nothing that is measured is asked here.
        self._asked += 1
        seed = self._probe.seed ^ (IDLE_SEED + self._asked)
        return await self._measure(dataclasses.replace(self._probe, seed=seed))


def _median(result: LoadResult, name: str) -> float | None:
    found = result.metrics[name]
    return found.p50 if isinstance(found, Distribution) else None
