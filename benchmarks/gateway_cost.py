"""Measure what a gateway costs: CPU time of 100,000 streamed tokens, memory without an engine, memory after an unload.

Usage: python -m benchmarks.gateway_cost [--python vllm=PATH …]    Interpreters of further engines: vllm, transformers.
CPU time and memory are those of the gateway's own process. Its CPU time depends less than a time on what else runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from subprocess import DEVNULL

import httpx2
import psutil

from benchmarks.gateway_overhead import ENGINE, KEY, LOAD
from vlmhyperbench.load.measure import Control, Target, measure
from vlmhyperbench.processes import start_child
from vlmhyperbench_sdk.gateway import EngineEnvironment, LoadRequest
from vlmhyperbench_sdk.load import Endpoint
from vlmhyperbench_sdk.types import JsonValue
from vlmhyperbench_tiny_doc_vlm import names, path

REQUESTS, TOKENS = 1000, 100
STREAM = {"ttft_ms": 5, "gap_ms": 2, "tokens": TOKENS}
_SETTLE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAfterUnload:
    """Memory of a gateway and its engine, before a load, at its peak, and after the unload."""

    before_bytes: int
    loaded_bytes: int
    after_bytes: int

    @property
    def kept(self) -> float:
        """Share of what the load took that is not given back."""
        return (self.after_bytes - self.before_bytes) / (self.loaded_bytes - self.before_bytes)


@asynccontextmanager
async def gateway(python: str = sys.executable) -> AsyncIterator[tuple[psutil.Process, httpx2.AsyncClient]]:
    """Run a gateway, whose engines run in an interpreter; yield its process and a client."""
    argv = [sys.executable, "-m", "vlmhyperbench_gateway", "--host", "127.0.0.1", "--port", "0"]
    env = {"VLMHB_GATEWAY_KEY": KEY, **EngineEnvironment(python=python).to_variables()}
    async with await start_child(argv, env=env, stdin=DEVNULL, stderr=DEVNULL) as child:
        url = f"http://127.0.0.1:{json.loads(await child.stdout.readline())['port']}"
        headers = {"X-API-Key": KEY}
        async with httpx2.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=900) as client:
            yield psutil.Process(child.pid), client


async def idle_bytes() -> int:
    """Return the resident memory of a gateway that has no engine."""
    async with gateway() as (process, client):
        (await client.get("/v1/model/status")).raise_for_status()
        return int(process.memory_info().rss)


async def stream_cpu_s() -> tuple[float, int]:
    """Return the CPU time of a gateway that streams answers of the simulated engine, and their tokens."""
    async with gateway() as (process, client):
        await load(client, LoadRequest(model="simulated", backend_class="simulated", engine_params=STREAM))
        endpoint = Endpoint(url=f"{client.base_url}/v1/chat/completions", headers={"Authorization": "api_key"})
        target = Target(endpoint=endpoint, secrets={"api_key": f"Bearer {KEY}"})
        content = replace(LOAD.content, output_tokens=TOKENS)
        workload = replace(LOAD, scenario="offline", content=content, requests=REQUESTS, streams=16, warmup=16)
        before = process.cpu_times()
        result = await measure(workload, target, Control(report=lambda _: None))
        after = process.cpu_times()
        tokens = result.tokens["completion"]
        if not isinstance(tokens, int) or result.requests["ok"] != REQUESTS:
            raise SystemExit(f"Not every request was answered: {dict(result.requests)}.")
        return after.user + after.system - before.user - before.system, tokens + 16 * TOKENS


async def memory_after_unload(request: LoadRequest, python: str) -> MemoryAfterUnload:
    """Load a model, ask it once, unload it, and return the memory of the processes before, meanwhile and after."""
    async with gateway(python) as (process, client):
        await load(client, request)  # what the gateway itself imports for a load stays, and is not the engine's
        await unload(client)
        before = _tree_bytes(process)
        await load(client, request)
        body = {"model": request.model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}
        (await client.post("/v1/chat/completions", json=body)).raise_for_status()
        loaded = _tree_bytes(process)
        await unload(client)
        return MemoryAfterUnload(before_bytes=before, loaded_bytes=loaded, after_bytes=_tree_bytes(process))


async def load(client: httpx2.AsyncClient, request: LoadRequest) -> None:
    (await client.post("/v1/model/load", json=asdict(request))).raise_for_status()


async def unload(client: httpx2.AsyncClient) -> None:
    (await client.post("/v1/model/unload")).raise_for_status()
    await asyncio.sleep(_SETTLE_S)


def requests_of(pythons: Mapping[str, str]) -> dict[str, tuple[LoadRequest, str]]:
    """Return a load of the tiny reader for each engine that is there, with its interpreter."""
    gguf = {"weights": "tiny-doc-vlm-f16.gguf", "mmproj": "tiny-doc-vlm-mmproj-f16.gguf"}
    files = {role: str(path(name)) for role, name in gguf.items()}
    llama = LoadRequest(model="tiny", backend_class="llamacpp", files=files, engine_params={"n_ctx": 1024})
    found = {"llamacpp": (llama, sys.executable)}
    folder = {name: str(path(name, "0.2")) for name in names("0.2") if not name.endswith(".gguf")}
    params: dict[str, dict[str, JsonValue]] = {
        "transformers": {"max_context": 1024, "threads": 1},
        "vllm": {"dtype": "float32", "kv_cache_gib": 1, "max_num_seqs": 8, "enforce_eager": True},
    }
    for name, python in pythons.items():
        request = LoadRequest(
            model="tiny",
            backend_class=name,
            files=folder,
            engine_params=params[name],
            load_timeout_s=600,
        )
        found[name] = (request, python)
    return found


def _tree_bytes(process: psutil.Process) -> int:
    """Return the memory of a process and all its children; shared pages are divided."""
    members = (process, *process.children(recursive=True))
    return sum(int(member.memory_full_info().pss) for member in members)


def main() -> None:
    """Measure and print every figure with its aim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", default=[], metavar="ENGINE=PATH")
    pythons = dict(pair.split("=", 1) for pair in parser.parse_args().python)
    print(f"{time.strftime('%Y-%m-%d %H:%M')}, {os.cpu_count()} CPUs; simulated engine {ENGINE} and {STREAM}")
    print(f"gateway without an engine: {asyncio.run(idle_bytes()) / 1e6:.0f} MB (aim: at most 120 MB)")
    cpu_s, tokens = asyncio.run(stream_cpu_s())
    print(f"gateway: {cpu_s / tokens * 1e5:.2f} CPU-s per 100,000 streamed tokens (aim: at most 3)")
    for name, (request, python) in requests_of(pythons).items():
        measured = asyncio.run(memory_after_unload(request, python))
        before, loaded, after = (value / 1e6 for value in asdict(measured).values())
        print(
            f"{name}: {before:.0f} MB before, {loaded:.0f} MB loaded, {after:.0f} MB after the unload: "
            f"{measured.kept:+.2%} of the load is kept (aim: within 2 %)"
        )


if __name__ == "__main__":
    main()
