"""Wait until a server is idle again: it answers a single request about as fast as before the first load."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable

from vlmhyperbench.analysis.load_result import LoadResult
from vlmhyperbench.analysis.results import Distribution
from vlmhyperbench.load.workload import Workload
from vlmhyperbench_sdk.errors import Unavailable

MAX_SLOWDOWN = 2.0
SLACK_MS = 20.0
"""The first token may take `MAX_SLOWDOWN` times as long as at first, or `SLACK_MS` longer, whichever allows more."""

MAX_WAIT_S = 120.0
PAUSE_S = 0.25
MAX_ATTEMPTS = 3
"""Maximum number of requests until the idle server answers the first one."""

IDLE_SEED = 1 << 40


class IdleProbe:
    """Sends one request at a time: `begin` before a series of loads, `wait` after each of them."""

    def __init__(self, workload: Workload, measure: Callable[[Workload], Awaitable[LoadResult]]) -> None:
        """Derive the probe's requests from a load; nothing is sent yet.

        Args:
            workload: The load. The probe's requests are like its own, each with another seed.
            measure: Measures a load.
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
        self._measure = measure
        self._sent = 0
        self._first_ms = 0.0
        self.latency_ms = 0.0
        """Latency of the first measured request."""

    async def begin(self) -> float:
        """Send a warm-up request and a measured one; return the time to first token in ms.

        Raises:
            Unavailable: the server does not answer.
        """
        await self._send()
        failure = ""
        for _ in range(MAX_ATTEMPTS):
            result = await self._send()
            ttft, latency = _median(result, "ttft_user_ms"), _median(result, "latency_ms")
            if ttft is not None and latency is not None:
                self._first_ms, self.latency_ms = ttft, latency
                return ttft
            failure = ", ".join(result.errors) or "an answer without a token"
        raise Unavailable(
            f"Nothing was measured: the idle server answered none of {MAX_ATTEMPTS} requests ({failure}).",
            cure="Check with one request that the server answers with a token, then repeat the command.",
        )

    async def wait(self) -> float | None:
        """Send requests until one is fast enough; return the seconds that took, or None after `MAX_WAIT_S`."""
        began_s = time.monotonic()
        while True:
            sent_s = time.monotonic()
            ttft = _median(await self._send(), "ttft_user_ms")
            if ttft is not None and ttft <= max(MAX_SLOWDOWN * self._first_ms, self._first_ms + SLACK_MS):
                return sent_s - began_s
            if time.monotonic() - began_s > MAX_WAIT_S:
                return None
            await asyncio.sleep(PAUSE_S)

    async def _send(self) -> LoadResult:
        # A cached prompt is answered faster, so each request has a seed of its own, which no measured load uses.
        self._sent += 1
        seed = self._probe.seed ^ (IDLE_SEED + self._sent)
        return await self._measure(dataclasses.replace(self._probe, seed=seed))


def _median(result: LoadResult, name: str) -> float | None:
    metric = result.metrics[name]
    return metric.p50 if isinstance(metric, Distribution) else None
