"""Weights, cache, projector and compute buffers that llama.cpp really allocates are within 10 % of the estimate."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.gateway.test_llamacpp_memory import STARTED_TALKATIVE
from vlmhyperbench_llamacpp.adapter import SHIM, LlamaCpp
from vlmhyperbench_llamacpp.memory import PROCESS_BYTES
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import EngineLaunch
from vlmhyperbench_sdk.types import JsonValue
from vlmhyperbench_tiny_doc_vlm import path

MIB = 2**20
_BUFFER = re.compile(r"(\S+) +(model|KV|compute) buffer size = +([0-9.]+) MiB")
_PROJECTOR = re.compile(r"load_hparams: (model) size: +([0-9.]+) MiB")
MMPROJ = "mmproj"
_COPY = ("CPU_REPACK", "model")
"""Weights in another order, whose pages in the mapped file the machine may drop."""

COMBINATIONS: list[tuple[str, str, dict[str, JsonValue]]] = [
    ("0.2", "f16", {"n_ctx": 1024, "parallel": 1}),
    ("0.2", "q8_0", {"n_ctx": 4096, "parallel": 4}),
    ("0.2", "f16", {"n_ctx": 256, "parallel": 1, "n_ubatch": 32, "n_batch": 32}),
    ("0.2", "q8_0", {"n_ctx": 256, "parallel": 1, "n_ubatch": 32, "n_batch": 32}),
    ("0.2", "q4_0", {"n_ctx": 4096, "parallel": 2, "cache_type_k": "q8_0", "cache_type_v": "q8_0"}),
    ("0.2", "f16", {"n_ctx": 16_384, "parallel": 1, "cache_type_k": "q4_0", "cache_type_v": "q4_0"}),
    ("0.2", "f16", {"n_ctx": 32_768, "parallel": 2, "cache_type_k": "q8_0", "cache_type_v": "q8_0"}),
    ("0.1", "f16", {"n_ctx": 2048, "parallel": 2}),
    ("0.1", "q8_0", {"n_ctx": 8192, "parallel": 1, "n_ubatch": 128}),
    ("0.1", "q4_0", {"n_ctx": 1000, "parallel": 3, "cache_type_k": "f32", "cache_type_v": "f32"}),
    ("0.2", "f16", {"n_ctx": 8192, "parallel": 1, "flash_attn": "off"}),
    ("0.2", "q8_0", {"n_ctx": 4096, "parallel": 2, "flash_attn": "off"}),
    ("0.2", "f16", {"n_ctx": 1024, "parallel": 1, MMPROJ: "tiny-doc-vlm-mmproj-f16.gguf"}),
    ("0.1", "f16", {"n_ctx": 65_536, "parallel": 1, "cache_type_k": "q8_0", "cache_type_v": "q4_0"}),
]


def _taken_mib(load: LoadRequest) -> float:
    """Start the engine, and return the sum of the buffers that it logs."""
    launch = LlamaCpp().plan_engine(load, port=0, python=sys.executable)
    assert isinstance(launch, EngineLaunch)
    arguments = launch.argv[launch.argv.index(str(SHIM)) :]
    argv = [sys.executable, "-I", "-c", f"import sys; sys.argv = {list(arguments)!r}\n{STARTED_TALKATIVE}"]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as engine:
        assert engine.stdout is not None
        sizes: dict[tuple[str, str], float] = {}
        computing, expected = 0, len(load.files)  # the projector has a buffer of its own
        try:
            for line in engine.stdout:
                if stated := _BUFFER.search(line):
                    buffer = stated[1], stated[2]
                    sizes[buffer] = sizes.get(buffer, 0.0) + float(stated[3])
                    computing += stated[2] == "compute"
                if projector := _PROJECTOR.search(line):
                    sizes["projector", projector[1]] = float(projector[2])
                if computing == expected:
                    return sum(size for buffer, size in sizes.items() if buffer != _COPY)
        finally:
            engine.kill()
    raise AssertionError(sizes)


@pytest.mark.parametrize(("version", "kind", "params"), COMBINATIONS)
def test_what_is_estimated_is_taken(version: str, kind: str, params: dict[str, JsonValue]) -> None:
    params = dict(params)
    projector = params.pop(MMPROJ, None)
    files = {"weights": str(path(f"tiny-doc-vlm-{kind}.gguf", version))}
    files |= {} if projector is None else {MMPROJ: str(path(str(projector), version))}
    load = LoadRequest(model="m", backend_class="llamacpp", files=files, engine_params={"threads": 1, **params})
    estimate = LlamaCpp().estimate_whole(load)
    assert estimate is not None
    assert (estimate.host_bytes - PROCESS_BYTES) / MIB == pytest.approx(_taken_mib(load), rel=0.1)
