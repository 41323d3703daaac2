"""Measure what a served pipeline takes beside its models' own time: latency against that of members of known timing.

Two simulated members answer at once, and a third answers to what they have said: the models need MODELS_MS one after
the other. The same chain is asked directly, by one client that waits for each model; what the pipeline takes more is
the platform's share, two gateways and the pipeline's process, for each of its steps.

Usage: python -m benchmarks.served_pipeline
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
import psutil

from vlmhyperbench.domain.pipelines import PipelineTarget, asked_models
from vlmhyperbench.serving.plan import FILE, KEY_VARIABLE, ServedModel, ServingPlan
from vlmhyperbench.worker.gateway import GatewayClient, GatewayOptions
from vlmhyperbench_sdk.gateway import EngineEnvironment, LoadRequest
from vlmhyperbench_sdk.types import JsonValue

TTFT_MS, GAP_MS, TOKENS = 20.0, 2.0, 6
STEPS = 2
MODELS_MS = STEPS * (TTFT_MS + (TOKENS - 1) * GAP_MS)
REQUESTS, WARMUP = 200, 20
KEY = "benchmark-key-0123456789"


def pipeline() -> PipelineTarget:
    """Return a pipeline of a vote and a model that gets its answer."""

    def member(name: str) -> dict[str, JsonValue]:
        target: JsonValue = {
            "kind": "model",
            "model": name,
            "version": "1",
            "backend": "s",
            "backend_class": "simulated",
        }
        return {"name": name, "target": target}

    stages: list[JsonValue] = [
        {"id": "read", "members": [member("a"), member("b")], "aggregation": {"class_path": "vote"}},
        {"id": "write", "inputs": ["read"], "members": [member("c")]},
    ]
    return PipelineTarget.model_validate({"pipeline": "p", "version": "1", "stages": stages})


async def measure() -> tuple[list[float], list[float], float]:
    """Return latencies in ms, of the chain of models at their gateways and of the pipeline, and its CPU time in all."""
    params: dict[str, JsonValue] = {"ttft_ms": TTFT_MS, "gap_ms": GAP_MS, "answer": "one two three four five six"}
    target = pipeline()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        options = GatewayOptions(environment=EngineEnvironment(), log=folder / "gateway.log")
        gateways = [await GatewayClient.start(options, key=KEY) for _ in range(4)]
        try:
            urls = dict(zip("abc", (gateway.base_url for gateway in gateways), strict=False))
            for name, gateway in zip("abc", gateways, strict=False):
                await gateway.load(LoadRequest(model=name, backend_class="simulated", engine_params=params))
            models = tuple(
                ServedModel(stage=asked.stage.id, name=asked.model.name, url=urls[asked.model.name])
                for asked in asked_models(target)
            )
            plan = folder / "plan.json"
            plan.write_text(ServingPlan(target=target, models=models).model_dump_json())
            status = await gateways[3].load(
                LoadRequest(model="p", backend_class="pipeline", files={FILE: str(plan)}, env={KEY_VARIABLE: KEY})
            )
            engine = status.engine.pid if status.engine is not None else None
            processes = [psutil.Process(engine), psutil.Process(gateways[3].pid)]
            chain, whole, cpu_ms = list[float](), list[float](), 0.0
            async with httpx2.AsyncClient(headers={"X-API-Key": KEY}, trust_env=False, timeout=60) as http:
                for no in range(WARMUP + REQUESTS):
                    if no == WARMUP:
                        cpu_ms = -_cpu_ms(processes)
                    begun = time.perf_counter()
                    await asyncio.gather(*(_ask(http, urls[name], name) for name in "ab"))
                    await _ask(http, urls["c"], "c")
                    middle = time.perf_counter()
                    await _ask(http, gateways[3].base_url, "p")
                    if no >= WARMUP:
                        chain.append((middle - begun) * 1000)
                        whole.append((time.perf_counter() - middle) * 1000)
            return chain, whole, cpu_ms + _cpu_ms(processes)
        finally:
            for gateway in reversed(gateways):
                await gateway.close()


def _cpu_ms(processes: list[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes]
    return sum(each.user + each.system for each in times) * 1000


async def _ask(http: httpx2.AsyncClient, url: str, model: str) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": "What is the total?"}], "stream": True}
    async with http.stream("POST", f"{url}/v1/chat/completions", content=json.dumps(body)) as response:
        response.raise_for_status()
        async for _ in response.aiter_bytes():
            pass


def main() -> None:
    """Measure and print."""
    chain, whole, cpu_ms = asyncio.run(measure())
    print(f"{os.cpu_count()} CPUs, {REQUESTS} requests in pairs; the models need {MODELS_MS:.0f} ms, {STEPS} steps")
    for name, times in (("models one after the other, at their gateways", chain), ("the pipeline", whole)):
        deciles = statistics.quantiles(times, n=20)
        print(f"{name}: p50 {statistics.median(times):.2f} ms, p95 {deciles[18]:.2f} ms")
    share = [(time_ms - MODELS_MS) / STEPS for time_ms in whole]
    added = [(second - first) / STEPS for first, second in zip(chain, whole, strict=True)]
    print(f"the platform's share of a step, gateways and client included: p50 {statistics.median(share):.2f} ms")
    cpu = cpu_ms / REQUESTS / STEPS
    print(f"CPU time of the pipeline's process and its gateway: {cpu:.2f} ms a step; load {os.getloadavg()[0]:.0f}")
    print(f"what the pipeline adds to a client of the same gateways: p50 {statistics.median(added):.2f} ms a step")


if __name__ == "__main__":
    main()
