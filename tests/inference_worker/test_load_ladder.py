"""An engine that runs out of memory while it loads is loaded once more, on the next rung, and then refused."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.processes import PATIENCE_S
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.domain.recipes import ModelFile
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench.folders import file_sha256
from vlmhyperbench.worker.devices import DeviceInfo
from vlmhyperbench.worker.gateway import GatewayOptions
from vlmhyperbench_inference_worker.room import Room, ladder_of
from vlmhyperbench_inference_worker.serving import Serving, WantedTarget
from vlmhyperbench_sdk.errors import InvalidInput, VlmHyperBenchError
from vlmhyperbench_sdk.free_memory import FreeMemory
from vlmhyperbench_sdk.gateway import EngineEnvironment
from vlmhyperbench_sdk.net import UrlPolicy
from vlmhyperbench_sdk.types import JsonValue
from vlmhyperbench_tiny_doc_vlm import path

pytestmark = pytest.mark.anyio

GIB = 2**30
PROCESSOR = DeviceInfo(no=0, kind="cpu", uuid="cpu-0", name="cpu", memory_bytes=64 * GIB)


def target(parallel: int) -> ModelTarget:
    weights = Path(path("tiny-doc-vlm-f16.gguf", "0.2"))
    file = ModelFile(role="weights", location=str(weights), sha256=file_sha256(weights))
    params: dict[str, JsonValue] = {"threads": 1, "n_ctx": 524_288, "parallel": parallel, "n_ubatch": 64, "n_batch": 64}
    return ModelTarget(
        model="m", version="1", backend="llamacpp", backend_class="llamacpp", engine_params=params, files=(file,)
    )


async def load(tmp_path: Path, parallel: int, *, limit_mib: int, memory_bytes: int = 64 * GIB) -> Serving:
    """Load a model whose processes may have so much address space, on a machine that seems to have 64 GiB free."""
    python = tmp_path / "python"
    # One arena, since how many a busy machine reserves is chance.
    python.write_text(f'#!/bin/sh\nulimit -v {limit_mib * 1024}\nMALLOC_ARENA_MAX=1 exec {sys.executable} "$@"\n')
    python.chmod(0o700)
    cache = ModelCache(tmp_path / "models", max_bytes=GIB)
    room = Room(devices=(replace(PROCESSOR, memory_bytes=memory_bytes),))
    free = FreeMemory(host_bytes=64 * GIB, device_bytes=None)
    wanted = WantedTarget(
        digest="d",
        target=target(parallel),
        load_timeout_s=PATIENCE_S,
        ladder=ladder_of(target(parallel), room, cache, measure_free=lambda: free),
        cache=cache,
    )
    options = GatewayOptions(
        environment=EngineEnvironment(python=str(python)),
        log=tmp_path / "gateway.log",
        policy=UrlPolicy(allow_loopback=True),
    )
    return await Serving.start(wanted, options)


async def test_what_the_estimate_shows_not_to_fit_is_loaded_smaller(tmp_path: Path) -> None:
    serving = await load(tmp_path, 4, limit_mib=8192, memory_bytes=1_100 * 2**20)
    try:
        assert serving.fitted is not None
        assert serving.engine is not None
        (step,) = serving.fitted.recorded
        assert isinstance(step, dict)
        assert (step["rung"], step["before"], step["is_lossy"]) == ("fewer parallel slots", "parallel=4", False)
        parallel = serving.fitted.engine_params["parallel"]
        assert serving.engine.argv[serving.engine.argv.index("--parallel") + 1] == str(parallel)
    finally:
        await serving.close()


async def test_out_of_memory_while_it_loads_is_tried_once_on_the_next_rung(tmp_path: Path) -> None:
    serving = await load(tmp_path, 2, limit_mib=850)
    try:
        assert serving.fitted is not None
        assert serving.engine is not None
        assert [step.after for step in serving.fitted.steps] == ["parallel=1"]
        assert serving.engine.argv[serving.engine.argv.index("--parallel") + 1] == "1"
    finally:
        await serving.close()


async def test_a_second_out_of_memory_is_the_last(tmp_path: Path) -> None:
    with pytest.raises(VlmHyperBenchError) as failed:
        await load(tmp_path, 3, limit_mib=850)
    assert failed.value.code == "oom"


async def test_where_nothing_is_left_the_load_is_refused_with_what_is_lacking(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        await load(tmp_path, 2, limit_mib=8192, memory_bytes=100 * 2**20)
    assert refused.value.code == "does_not_fit"
