"""Measure two schedules of one pipeline: model by model over all samples, and sample by sample over all models.

Three precisions of the tiny reader answer the same questions about a page, through one gateway each time. Model-major,
as runs do: a model is loaded, answers all samples, and makes room for the next one. Sample-major in the memory of one
model: every answer needs a load. Sample-major with all models loaded, as a session and a served pipeline do: three
gateways. All three send the same requests, one at a time.

Usage: python -m benchmarks.pipeline_schedules [SAMPLES] [SAMPLES OF THE LAST SCHEDULE]    200 by default: minutes,
nearly all of them loads of the last schedule, which loads a model for each answer and so may take fewer samples
"""

from __future__ import annotations

import asyncio
import base64
import io
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
from PIL import Image, ImageDraw

from vlmhyperbench.cli.fetching import open_cache
from vlmhyperbench.cli.resolving import load_request, resolve_model
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.gateway import GatewayClient, GatewayOptions
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.types import JsonValue

MODELS = ("tiny-doc-vlm-0.2", "tiny-doc-vlm-0.2-q8", "tiny-doc-vlm-0.2-q4")
SAMPLES, MAX_TOKENS = 200, 8
KEY = "benchmark-key-0123456789"

Ask = Callable[[str, GatewayClient, int], Awaitable[None]]


def page() -> str:
    """Return a page with one line as a data URL."""
    image = Image.new("RGB", (512, 512), "white")
    ImageDraw.Draw(image).text((40, 60), "Total: 12.50", fill="black")
    written = io.BytesIO()
    image.save(written, "PNG")
    return f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"


async def model_major(gateway: GatewayClient, loads: dict[str, LoadRequest], ask: Ask, samples: int) -> float:
    """Return the seconds of loading."""
    loading_s = 0.0
    for name, request in loads.items():
        loading_s += await _load(gateway, request)
        for sample in range(samples):
            await ask(name, gateway, sample)
    return loading_s


async def sample_major(gateway: GatewayClient, loads: dict[str, LoadRequest], ask: Ask, samples: int) -> float:
    """Return the seconds of loading, in the memory of one model."""
    loading_s = 0.0
    for sample in range(samples):
        for name, request in loads.items():
            loading_s += await _load(gateway, request)
            await ask(name, gateway, sample)
    return loading_s


async def _load(gateway: GatewayClient, request: LoadRequest) -> float:
    begun = time.perf_counter()
    await gateway.load(request)
    return time.perf_counter() - begun


async def resident(options: GatewayOptions, loads: dict[str, LoadRequest], ask: Ask, samples: int) -> float:
    """Return the seconds of loading, with all models loaded at once."""
    gateways = [await GatewayClient.start(options, key=KEY) for _ in loads]
    try:
        pairs = list(zip(loads.items(), gateways, strict=True))
        loading_s = sum([await _load(gateway, request) for (_, request), gateway in pairs])
        for sample in range(samples):
            for (name, _), gateway in pairs:
                await ask(name, gateway, sample)
        return loading_s
    finally:
        for gateway in gateways:
            await gateway.close()


async def measure(samples: int, few: int) -> None:
    """Measure and print each schedule; that with a load for each answer on `few` samples."""
    environment = Settings.load().engine_environment
    image: JsonValue = {"type": "image_url", "image_url": {"url": page()}}
    loads = {
        name: load_request(resolve_model(name, None, {}, adapters=environment.adapters), open_cache())
        for name in MODELS
    }
    loads = {name: replace(request, replace=True) for name, request in loads.items()}
    async with httpx2.AsyncClient(headers={"X-API-Key": KEY}, trust_env=False, timeout=120) as http:

        async def ask(name: str, gateway: GatewayClient, sample: int) -> None:
            content: JsonValue = [image, {"type": "text", "text": f"What is the total of invoice {sample}?"}]
            body = {"model": name, "messages": [{"role": "user", "content": content}], "max_tokens": MAX_TOKENS}
            answer = await http.post(f"{gateway.base_url}/v1/chat/completions", json={**body, "temperature": 0})
            answer.raise_for_status()

        with TemporaryDirectory() as folder:
            options = GatewayOptions(environment=environment, log=Path(folder) / "gateway.log")
            gateway = await GatewayClient.start(options, key=KEY)
            try:
                await _timed("model-major", samples, lambda: model_major(gateway, loads, ask, samples))
                await _timed("sample-major, all models loaded", samples, lambda: resident(options, loads, ask, samples))
                await _timed("sample-major, one model loaded", few, lambda: sample_major(gateway, loads, ask, few))
            finally:
                await gateway.close()


async def _timed(name: str, samples: int, schedule: Callable[[], Awaitable[float]]) -> None:
    begun = time.perf_counter()
    loading_s = await schedule()
    whole_s = time.perf_counter() - begun
    print(
        f"{name}: {whole_s:.1f} s for {samples} samples x {len(MODELS)} models, {loading_s:.1f} s of it loading; "
        f"load {os.getloadavg()[0]:.0f}",
        flush=True,
    )


if __name__ == "__main__":
    print(f"{datetime.now().astimezone():%Y-%m-%d %H:%M}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    given = [int(argument) for argument in sys.argv[1:3]] or [SAMPLES]
    asyncio.run(measure(given[0], given[-1]))
