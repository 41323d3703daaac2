"""Measure the TTFT that the gateway adds: the same load at the engine's own URL and through the gateway, in pairs.

It is the measurement of `vlmhyperbench load ENGINE --against GATEWAY --scenario single_stream`, in random order.

Usage: python -m benchmarks.gateway_overhead [--vllm PYTHON]    The interpreter of an environment that has vLLM.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
from dataclasses import asdict, replace
from subprocess import DEVNULL

import httpx2

from vlmhyperbench.analysis.load_result import LoadResult
from vlmhyperbench.analysis.results import Distribution
from vlmhyperbench.load.bodies import RequestContent
from vlmhyperbench.load.measure import Control, Target, measure
from vlmhyperbench.load.pairs import PairedResult, Side, measure_in_pairs
from vlmhyperbench.load.workload import Workload
from vlmhyperbench.processes import start_child
from vlmhyperbench_sdk.gateway import EngineEnvironment, LoadRequest
from vlmhyperbench_sdk.load import Endpoint
from vlmhyperbench_sdk.types import JsonObject
from vlmhyperbench_tiny_doc_vlm import names, path

PAIRS = 10
KEY = "benchmark-key-0123456789"
ENGINE: JsonObject = {"ttft_ms": 5, "gap_ms": 1, "tokens": 4}
SIMULATED = LoadRequest(model="simulated", backend_class="simulated", engine_params=ENGINE)
LOAD = Workload(
    scenario="single_stream",
    content=RequestContent(model="simulated", prompt="What is the total?", output_tokens=4),
    requests=100,
    duration_s=None,
    streams=1,
    arrivals=None,
    trace=(),
    speed=1.0,
    warmup=10,
    timeout_s=30.0,
    seed=0,
    processes=1,
)


def added_ttft_ms() -> tuple[float, float, float]:
    """Return the medians in milliseconds: direct, through the gateway, and of the pairs' differences."""
    return medians_of(asyncio.run(measure_pairs(pairs=PAIRS)))


async def measure_pairs(*, pairs: int, request: LoadRequest = SIMULATED, python: str = sys.executable) -> PairedResult:
    """Measure an engine behind a gateway: first at its own URL, second through the gateway."""
    argv = [sys.executable, "-m", "vlmhyperbench_gateway", "--host", "127.0.0.1", "--port", "0"]
    env = {"VLMHB_GATEWAY_KEY": KEY, **EngineEnvironment(python=python).to_variables()}
    workload = replace(LOAD, content=replace(LOAD.content, model=request.model))
    async with await start_child(argv, env=env, stdin=DEVNULL, stderr=DEVNULL) as child:
        gateway = f"http://127.0.0.1:{json.loads(await child.stdout.readline())['port']}"
        bases = (await _load_engine(gateway, request), gateway)
        # Both get the key, so that the same bytes are sent to both; the engine does not require it.
        first, second = (
            Target(
                endpoint=Endpoint(url=f"{base}/v1/chat/completions", headers={"Authorization": "api_key"}),
                secrets={"api_key": f"Bearer {KEY}"},
            )
            for base in bases
        )
        control = Control(report=lambda _: None)

        async def measure_side(load: Workload, side: Side, _: str) -> LoadResult:
            return await measure(load, first if side == "first" else second, control)

        return await measure_in_pairs(workload, measure_side, control, urls=bases, pairs=pairs)


def medians_of(measured: PairedResult) -> tuple[float, float, float]:
    """Return medians over pairs of the TTFT from the send: direct, through the gateway, and of the differences."""
    direct = [_ttft_ms(pair.first) for pair in measured.pairs]
    through = [_ttft_ms(pair.second) for pair in measured.pairs]
    added = [second - first for first, second in zip(direct, through, strict=True)]
    return statistics.median(direct), statistics.median(through), statistics.median(added)


async def _load_engine(gateway: str, request: LoadRequest) -> str:
    """Make the gateway start an engine; return the engine's own URL."""
    async with httpx2.AsyncClient(trust_env=False, timeout=request.load_timeout_s + 30) as client:
        loaded = await client.post(f"{gateway}/v1/model/load", json=asdict(request), headers={"X-API-Key": KEY})
        loaded.raise_for_status()
        url: str = loaded.json()["engine_url"]
        return url


def _ttft_ms(result: LoadResult) -> float:
    ttft = result.metrics["ttft_service_ms"]
    if not isinstance(ttft, Distribution) or ttft.p50 is None:
        raise RuntimeError("No answer had a token.")
    return ttft.p50


def _failed_gates(measured: PairedResult) -> list[str]:
    results = [result for pair in measured.pairs for result in (pair.first, pair.second)]
    return sorted({gate.name for result in results for gate in result.gates if not gate.ok})


def vllm_request() -> LoadRequest:
    """Return a load of the tiny reader into vLLM."""
    return LoadRequest(
        model="tiny",
        backend_class="vllm",
        files={name: str(path(name, "0.2")) for name in names("0.2") if not name.endswith(".gguf")},
        engine_params={"dtype": "float32", "kv_cache_gib": 1, "max_num_seqs": 8, "enforce_eager": True},
        load_timeout_s=600,
    )


def main() -> None:
    """Measure and print the medians, the ratio of the pairs, and the gates that failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vllm", metavar="PYTHON")
    python = parser.parse_args().vllm
    request = SIMULATED if python is None else vllm_request()
    measured = asyncio.run(measure_pairs(pairs=PAIRS, request=request, python=python or sys.executable))
    print(f"{request.backend_class}, {os.cpu_count()} CPUs, {len(measured.pairs)} pairs of {LOAD.requests} requests")
    print("TTFT direct {:.2f} ms, through the gateway {:.2f} ms, added {:.2f} ms".format(*medians_of(measured)))
    ratio = measured.ratios["ttft_p50"]
    if ratio.low is not None and ratio.high is not None:
        print(f"ratio {ratio.ratio:.3f}, {ratio.low:.3f} to {ratio.high:.3f} at {ratio.confidence:.0%}")
    if not measured.valid:
        print(f"INVALID: {', '.join(_failed_gates(measured))}")


if __name__ == "__main__":
    main()
