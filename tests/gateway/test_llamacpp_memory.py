"""The KV cache that llama.cpp allocates is to the byte what its adapter estimates."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from vlmhyperbench_llamacpp.adapter import SHIM, LlamaCpp
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import EngineLaunch
from vlmhyperbench_sdk.types import JsonValue
from vlmhyperbench_tiny_doc_vlm import path

STARTED_TALKATIVE = """\
import runpy, sys, xllamacpp
shim = runpy.run_path(sys.argv[0], run_name="shim")
params = shim["_params"](shim["_parse"]())
params.verbosity = 10
xllamacpp.Server(params)
"""
"""The shim's own start, with everything that llama.cpp has to say."""

_CACHE = re.compile(r"KV buffer size = +([0-9.]+) MiB")


def _load(params: dict[str, JsonValue]) -> LoadRequest:
    files = {"weights": str(path("tiny-doc-vlm-f16.gguf", "0.2"))}
    return LoadRequest(model="m", backend_class="llamacpp", files=files, engine_params={"threads": 1, **params})


def _allocated_mib(params: dict[str, JsonValue]) -> float:
    launch = LlamaCpp().plan_engine(_load(params), port=0, python=sys.executable)
    assert isinstance(launch, EngineLaunch)
    arguments = launch.argv[launch.argv.index(str(SHIM)) :]
    starting = f"import sys; sys.argv = {list(arguments)!r}\n{STARTED_TALKATIVE}"
    argv = [sys.executable, "-I", "-c", starting]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as engine:
        assert engine.stdout is not None
        output: list[str] = []
        try:
            for line in engine.stdout:
                output.append(line)
                if stated := _CACHE.search(line):
                    return float(stated[1])
        finally:
            engine.kill()
    raise AssertionError("".join(output[-20:]))


def _host_bytes(params: dict[str, JsonValue]) -> int:
    estimate = LlamaCpp().estimate_memory(_load(params))
    assert estimate is not None
    return estimate.host_bytes


@pytest.mark.parametrize(
    "params",
    [
        {"n_ctx": 4096, "parallel": 4},
        {"n_ctx": 1000, "parallel": 3, "cache_type_k": "q8_0", "cache_type_v": "q8_0"},
        {"n_ctx": 65_536, "parallel": 1, "cache_type_k": "q4_0", "cache_type_v": "q4_0"},
        {"n_ctx": 8192, "parallel": 2, "cache_type_k": "f32", "cache_type_v": "bf16", "flash_attn": "off"},
    ],
    ids=["f16", "q8_0", "q4_0", "f32 and bf16"],
)
def test_the_cache_is_as_large_as_estimated(params: dict[str, JsonValue]) -> None:
    nothing: dict[str, JsonValue] = {"n_ctx": 256, "parallel": 1, "cache_type_k": "f16", "cache_type_v": "f16"}
    smallest = 256 * 3 * 2 * (2 * 32 * 2)  # cells, layers, keys and values, 2 KV heads of 32 values in 16 bits
    expected = _host_bytes(params) - _host_bytes(nothing) + smallest
    assert _allocated_mib(params) == pytest.approx(expected / 2**20, abs=0.006)


def test_the_weights_are_those_of_the_file() -> None:
    weights = Path(path("tiny-doc-vlm-f16.gguf", "0.2"))
    on_host, on_device = LlamaCpp().estimate_memory(_load({})), LlamaCpp().estimate_memory(_load({"n_gpu_layers": -1}))
    assert on_host is not None
    assert on_device is not None
    moved = on_host.host_bytes - on_device.host_bytes
    assert moved == on_device.device_bytes
    embeddings = 267 * 192 * 2
    cache = 4096 * 4 * 3 * 2 * (2 * 32 * 2)
    assert weights.stat().st_size - 8192 < moved - cache + embeddings <= weights.stat().st_size
