"""llama.cpp's own dry run states what a load takes, to the MiB in which it prints; a broken file is no estimate."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from vlmhyperbench_llamacpp.adapter import LlamaCpp
from vlmhyperbench_llamacpp.dry_run import is_host, read_rows
from vlmhyperbench_llamacpp.memory import PROCESS_BYTES
from vlmhyperbench_sdk.errors import Unavailable
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.types import JsonValue
from vlmhyperbench_tiny_doc_vlm import path

MIB = 2**20


def _load(weights: str, params: dict[str, JsonValue], **files: str) -> LoadRequest:
    engine_params: dict[str, JsonValue] = {"threads": 1, **params}
    return LoadRequest(
        model="m", backend_class="llamacpp", files={"weights": weights, **files}, engine_params=engine_params
    )


def test_the_dry_run_states_the_cache_to_the_mib_and_adds_the_projector() -> None:
    weights, mmproj = (str(path(f"tiny-doc-vlm-{name}.gguf", "0.2")) for name in ("f16", "mmproj-f16"))
    estimate = LlamaCpp().dry_run(
        _load(weights, {"n_ctx": 65_536, "parallel": 2}, mmproj=mmproj), python=sys.executable
    )
    assert estimate.source == "dry_run"
    assert estimate.parts["KV cache"] == 65_536 * 2 * 3 * 2 * (2 * 32 * 2)  # cells, slots, layers, keys and values
    assert estimate.parts["vision tower"] == Path(mmproj).stat().st_size
    assert estimate.host_bytes == sum(estimate.parts.values())
    assert estimate.parts["process"] == PROCESS_BYTES
    assert estimate.parts["compute buffers"] > MIB
    assert estimate.device_bytes == 0


def test_a_file_that_llama_cpp_cannot_load_has_no_dry_run(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\xff" * 100)
    with pytest.raises(Unavailable):
        LlamaCpp().dry_run(_load(str(broken), {}), python=sys.executable)
    with pytest.raises(Unavailable):
        LlamaCpp().dry_run(_load(str(broken), {}), python=str(tmp_path / "no-python"))


def test_accelerators_are_read_beside_the_host() -> None:
    lines = [
        "x common_memory_breakdown_print: | memory breakdown [MiB] | total   free    self   model   context   compute",
        "x common_memory_breakdown_print: |   - CUDA0 (RTX 4090)   | 24077 = 23000 + (1000 = 500 + 300 + 200) + 77 |",
        "x common_memory_breakdown_print: |   - Host               |         263 =     2 +     192 +      68 |",
        "x common_params_fit_impl: projected to use 263 MiB of host memory",
        "x common_memory_breakdown_print: |   - CUDA1 (RTX 4090)   | 24077 = 23000 + (1000 = 500 + 300 + 200) + 77 |",
    ]
    assert read_rows(lines) == {"CUDA0": (500, 300, 200), "Host": (2, 192, 68)}


def test_buffers_of_the_processor_are_of_the_machine_and_a_reordered_copy_of_weights_is_not_counted_twice() -> None:
    lines = [
        "x common_memory_breakdown_print: | memory breakdown [MiB] | total   free    self   model   context   compute",
        "x common_memory_breakdown_print: |   - Host               |        7683 =  7083 +     400 +     200 |",
        "x common_memory_breakdown_print: |   - CPU_REPACK         |        5006 =  5006 +       0 +       0 |",
    ]
    rows = read_rows(lines)
    assert rows == {"Host": (7083, 400, 200), "CPU_REPACK": (0, 0, 0)}
    assert [is_host(name) for name in (*rows, "CUDA0", "ROCm0", "Metal")] == [True, True, False, False, False]
