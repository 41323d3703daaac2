"""An engine that runs out of memory while it loads is loaded once more, on the next rung, and then refused."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import shutil
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
from PIL import Image

from tests.support.processes import PATIENCE_S
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.domain.recipes import ModelFile
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench.folders import file_sha256
from vlmhyperbench.worker.devices import DeviceInfo
from vlmhyperbench.worker.gateway import GatewayOptions
from vlmhyperbench_inference_worker.fleet import Fleet
from vlmhyperbench_inference_worker.room import Room, ladder_of
from vlmhyperbench_inference_worker.serving import Serving, WantedTarget
from vlmhyperbench_sdk.errors import InvalidInput, NotFound, VlmHyperBenchError
from vlmhyperbench_sdk.free_memory import FreeMemory
from vlmhyperbench_sdk.gateway import EngineEnvironment
from vlmhyperbench_sdk.net import UrlPolicy
from vlmhyperbench_sdk.types import JsonValue
from vlmhyperbench_tiny_doc_vlm import path

pytestmark = pytest.mark.anyio

GIB = 2**30
PROCESSOR = DeviceInfo(no=0, kind="cpu", uuid="cpu-0", name="cpu", memory_bytes=64 * GIB)


def target(parallel: int, *, has_images: bool = False) -> ModelTarget:
    names = {"weights": "tiny-doc-vlm-f16.gguf", **({"mmproj": "tiny-doc-vlm-mmproj-f16.gguf"} if has_images else {})}
    paths = {role: Path(path(name, "0.2")) for role, name in names.items()}
    files = tuple(ModelFile(role=role, location=str(file), sha256=file_sha256(file)) for role, file in paths.items())
    context = 1024 if has_images else 524_288
    params: dict[str, JsonValue] = {"threads": 1, "n_ctx": context, "parallel": parallel, "n_ubatch": 64, "n_batch": 64}
    return ModelTarget(
        model="m", version="1", backend="llamacpp", backend_class="llamacpp", engine_params=params, files=files
    )


def prepared(
    tmp_path: Path, parallel: int, *, limit_mib: int, memory_bytes: int = 64 * GIB, has_images: bool = False
) -> tuple[WantedTarget, GatewayOptions]:
    """Prepare a load whose processes may have so much address space, on a machine that seems to have 64 GiB free."""
    python = tmp_path / "python"
    # One arena, since how many a busy machine reserves is chance.
    python.write_text(f'#!/bin/sh\nulimit -v {limit_mib * 1024}\nMALLOC_ARENA_MAX=1 exec {sys.executable} "$@"\n')
    python.chmod(0o700)
    cache = ModelCache(tmp_path / "models", max_bytes=GIB)
    room = Room(devices=(replace(PROCESSOR, memory_bytes=memory_bytes),))
    free = FreeMemory(host_bytes=64 * GIB, device_bytes=None)
    wanted_target = target(parallel, has_images=has_images)
    wanted = WantedTarget(
        digest="d",
        target=wanted_target,
        load_timeout_s=PATIENCE_S,
        ladder=ladder_of(wanted_target, room, cache, measure_free=lambda _: free),
        cache=cache,
    )
    options = GatewayOptions(
        environment=EngineEnvironment(python=str(python)),
        log=tmp_path / "gateway.log",
        policy=UrlPolicy(allow_loopback=True),
        engine_log=tmp_path / "engine.log",
    )
    return wanted, options


async def load(tmp_path: Path, parallel: int, *, limit_mib: int, memory_bytes: int = 64 * GIB) -> Serving:
    """Load a model within a limit."""
    return await Serving.start(*prepared(tmp_path, parallel, limit_mib=limit_mib, memory_bytes=memory_bytes))


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


async def test_the_next_rung_is_loaded_once_the_memory_of_the_failed_load_is_back(tmp_path: Path) -> None:
    wanted, options = prepared(tmp_path, 2, limit_mib=850)
    free_before, then = 8 * GIB, [GIB, GIB, 8 * GIB]
    seen = [free_before, *then]
    fleet = Fleet(free=lambda _: seen.pop(0))
    try:
        serving = await fleet.acquire(wanted, options, Room(devices=(PROCESSOR,)), uuid4())
        assert serving.fitted is not None
        assert [step.after for step in serving.fitted.steps] == ["parallel=1"]
        assert seen == []
    finally:
        await fleet.close()


async def test_a_second_out_of_memory_is_the_last(tmp_path: Path) -> None:
    with pytest.raises(VlmHyperBenchError) as failed:
        await load(tmp_path, 3, limit_mib=850)
    assert failed.value.code == "oom"


async def test_where_nothing_is_left_the_load_is_refused_with_what_is_lacking(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        await load(tmp_path, 2, limit_mib=8192, memory_bytes=100 * 2**20)
    assert refused.value.code == "does_not_fit"


async def test_out_of_memory_while_it_answers_is_loaded_once_on_the_next_rung_and_then_refused(tmp_path: Path) -> None:
    wanted, options = prepared(tmp_path, 2, limit_mib=8192, has_images=True)
    assert wanted.ladder is not None
    fleet, room, job_id = Fleet(), Room(devices=(PROCESSOR,), reserved_bytes={0: GIB}, is_alone=False), uuid4()
    try:
        first = await fleet.acquire(wanted, options, room, user := uuid4())
        assert first.engine is not None
        assert first.engine.pid is not None
        engine = psutil.Process(first.engine.pid)
        limit = engine.memory_info().vms + 2**20
        engine.rlimit(psutil.RLIMIT_AS, (limit, limit))
        assert await asyncio.to_thread(asked, first.measured.url) is None
        assert await asyncio.to_thread(first.says_out_of_memory)
        fleet.note_out_of_memory(job_id, user)
        await fleet.discard(user)
        assert not fleet.resident
        (failed,) = fleet.ran_out(job_id)
        again = replace(wanted, ran_out=failed)
        second = await fleet.acquire(again, options, room, user := uuid4())
        assert second.fitted is not None
        assert [(step.rung, step.after) for step in second.fitted.steps] == [("fewer parallel slots", "parallel=1")]
        assert await asyncio.to_thread(asked, second.measured.url) == 200
        fleet.note_out_of_memory(job_id, user)
        refusal = wanted.ladder.ran_out(fleet.ran_out(job_id)[-1])
        assert (refusal.code, refusal.facts["has_run_out"]) == ("does_not_fit", True)
    finally:
        await fleet.close()


def asked(url: str) -> int | None:
    """Ask about a large image, and return the status of the answer; None if the engine broke the connection."""
    written = io.BytesIO()
    Image.effect_noise((4000, 4000), 50).convert("RGB").save(written, "PNG")
    image = f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"
    content = [{"type": "image_url", "image_url": {"url": image}}, {"type": "text", "text": "?"}]
    body = json.dumps({"messages": [{"role": "user", "content": content}], "max_tokens": 4}).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, {"content-type": "application/json"})) as answer:
            return int(answer.status)
    except OSError:
        return None


async def test_a_model_whose_file_vanishes_between_check_and_load_fails_with_its_path(tmp_path: Path) -> None:
    copied = tmp_path / "m.gguf"
    shutil.copy(path("tiny-doc-vlm-f16.gguf", "0.2"), copied)
    wanted, options = prepared(tmp_path, 1, limit_mib=8192)
    file = ModelFile(role="weights", location=str(copied), sha256=file_sha256(copied))
    vanishing = wanted.target.model_copy(update={"files": (file,)})
    room = Room(devices=(PROCESSOR,))
    ladder = ladder_of(vanishing, room, wanted.cache)
    copied.unlink()
    with pytest.raises(NotFound) as failed:
        await Serving.start(replace(wanted, target=vanishing, ladder=ladder), options)
    assert str(copied) in failed.value.message


def test_only_the_free_memory_of_the_devices_of_the_load_counts(tmp_path: Path) -> None:
    asked = list[str]()

    def measure(variables: Mapping[str, str]) -> FreeMemory:
        asked.append(variables["CUDA_VISIBLE_DEVICES"])
        return FreeMemory(host_bytes=64 * GIB, device_bytes=64 * GIB, devices=1)

    for devices in ((replace(PROCESSOR, kind="gpu", uuid="GPU-a"),), (PROCESSOR,)):
        room, cache = Room(devices=devices), ModelCache(tmp_path / "models", max_bytes=GIB)
        ladder = ladder_of(target(1), room, cache, measure_free=measure)
        assert ladder is not None
        ladder.fit()
    assert asked == ["GPU-a", ""]
