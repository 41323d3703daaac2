"""The gateway's added TTFT: pairs of one request at the engine's own URL and one through the gateway, alternating."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from subprocess import DEVNULL

import httpx2

from vlmhyperbench.processes import start_child

PAIRS = 300
KEY = "benchmark-key-0123456789"
REQUEST = {
    "model": "simulated",
    "messages": [{"role": "user", "content": "What is the total?"}],
    "max_tokens": 4,
    "stream": True,
    "stream_options": {"include_usage": True},
}


def added_ttft_ms() -> tuple[float, float, float]:
    """Return the medians in milliseconds: direct, through the gateway, and of the pairs' differences."""
    return asyncio.run(_measure())


async def _measure() -> tuple[float, float, float]:
    argv = [sys.executable, "-m", "vlmhyperbench_gateway", "--host", "127.0.0.1", "--port", "0"]
    child = await start_child(argv, env={"VLMHB_GATEWAY_KEY": KEY}, stdin=DEVNULL, stderr=DEVNULL)
    async with child, httpx2.AsyncClient(trust_env=False, timeout=30) as client:
        assert child.stdout is not None
        port = json.loads(await child.stdout.readline())["port"]
        gateway, headers = f"http://127.0.0.1:{port}", {"X-API-Key": KEY}
        params = {"ttft_ms": 5, "gap_ms": 1, "tokens": 4}
        load = {"model": "simulated", "backend_class": "simulated", "engine_params": params}
        loaded = await client.post(f"{gateway}/v1/model/load", json=load, headers=headers)
        loaded.raise_for_status()
        engine = loaded.json()["engine_url"]
        direct, through = [], []
        for _ in range(20):
            await _ttft_ms(client, engine, {})
            await _ttft_ms(client, gateway, headers)
        for _ in range(PAIRS):
            direct.append(await _ttft_ms(client, engine, {}))
            through.append(await _ttft_ms(client, gateway, headers))
    added = [b - a for a, b in zip(direct, through, strict=True)]
    return statistics.median(direct), statistics.median(through), statistics.median(added)


async def _ttft_ms(client: httpx2.AsyncClient, url: str, headers: dict[str, str]) -> float:
    start = time.perf_counter()
    first: float | None = None
    async with client.stream("POST", f"{url}/v1/chat/completions", json=REQUEST, headers=headers) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if first is None and '"content":' in line and '"content":""' not in line.replace(" ", ""):
                first = time.perf_counter()
    if first is None:
        raise RuntimeError("The answer had no token.")
    return (first - start) * 1000


if __name__ == "__main__":
    print(f"{os.cpu_count()} CPUs")
    print("direct {:.2f} ms, through the gateway {:.2f} ms, added {:.2f} ms".format(*added_ttft_ms()))
