"""The memory of a GGUF model is computed from its header: where its layers lie, and what their caches take."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import pytest

from vlmhyperbench_llamacpp.adapter import LlamaCpp
from vlmhyperbench_llamacpp.memory import PROCESS_BYTES
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.gguf import read_header
from vlmhyperbench_sdk.protocols import MemoryEstimate
from vlmhyperbench_sdk.types import JsonValue

TENSOR_BYTES = 64
MIB = 2**20
Written = int | bool | str | list[int] | list[bool] | list[str]


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Written) -> bytes:
    if isinstance(value, list):
        kind = 8 if isinstance(value[0], str) else 7 if isinstance(value[0], bool) else 4
        return struct.pack("<IIQ", 9, kind, len(value)) + b"".join(_value(item)[4:] for item in value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    return struct.pack("<I?", 7, value) if isinstance(value, bool) else struct.pack("<II", 4, value)


def write(path: Path, tensors: list[str], values: Mapping[str, Written]) -> Path:
    """Write a file whose tensors have 64 bytes each."""
    data = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(values))
    data += b"".join(_text(key) + _value(value) for key, value in values.items())
    for number, name in enumerate(tensors):
        data += _text(name) + struct.pack("<IQIQ", 1, 16, 0, number * TENSOR_BYTES)
    data += b"\0" * (-len(data) % 32)
    path.write_bytes(data + b"\0" * TENSOR_BYTES * len(tensors))
    return path


def model(path: Path, layers: int, heads: Written, head: int, **more: Written) -> Path:
    """Write a model with one tensor a layer, embeddings and an output."""
    values: dict[str, Written] = {
        "general.architecture": "test",
        "tokenizer.ggml.tokens": ["a", "bc"] * 5000,
        "test.block_count": layers,
        "test.attention.head_count": 32,
        "test.attention.head_count_kv": heads,
        "test.attention.key_length": head,
        "test.attention.value_length": head,
        "test.embedding_length": 32 * head,
        **{f"test.{name}": value for name, value in more.items()},
    }
    tensors = ["token_embd.weight", *(f"blk.{layer}.attn_q.weight" for layer in range(layers)), "output.weight"]
    return write(path, tensors, values)


def estimate(path: Path, **params: JsonValue) -> MemoryEstimate:
    load = LoadRequest(model="m", backend_class="llamacpp", files={"weights": str(path)}, engine_params=params)
    estimated = LlamaCpp().estimate_memory(load)
    assert estimated is not None
    return estimated


@pytest.mark.parametrize(
    ("layers", "heads", "head", "context", "kind", "mib"),
    [
        (48, 4, 128, 36_864, "f16", 3456),
        (32, 8, 128, 8192, "f16", 1024),
        (32, 8, 128, 8192, "q8_0", 544),
        (32, 8, 128, 8192, "q4_0", 288),
        (56, 8, 128, 49_152, "q8_0", 5712),
    ],
)
def test_the_cache_of_known_models(  # sizes that llama.cpp logs for Qwen3, Llama 3 8B and Mistral Small
    tmp_path: Path, layers: int, heads: int, head: int, context: int, kind: str, mib: int
) -> None:
    path = model(tmp_path / "m.gguf", layers, heads, head)
    estimated = estimate(path, n_ctx=context, parallel=1, cache_type_k=kind, cache_type_v=kind)
    weights = TENSOR_BYTES * (layers + 2)
    assert estimated.host_bytes - PROCESS_BYTES - weights == mib * MIB
    assert estimated.device_bytes == 0


def test_layers_lie_where_they_are_offloaded(tmp_path: Path) -> None:
    path = model(tmp_path / "m.gguf", 4, 8, 128)
    cache = 4096 * 4 * 2 * 8 * 128 * 2
    device = {count: estimate(path, n_gpu_layers=count).device_bytes for count in (-1, 0, 1, 3, 99)}
    assert device == {
        -1: 5 * TENSOR_BYTES + 4 * cache,
        0: 0,
        1: TENSOR_BYTES,
        3: 3 * TENSOR_BYTES + 2 * cache,
        99: 5 * TENSOR_BYTES + 4 * cache,
    }
    total = {count: sum((estimate(path, n_gpu_layers=count).host_bytes, device[count])) for count in device}
    assert len(set(total.values())) == 1


def test_layers_with_a_window_have_a_cache_of_its_length(tmp_path: Path) -> None:
    full = estimate(model(tmp_path / "full.gguf", 4, 8, 128), n_ctx=8192)
    window: dict[str, Written] = {"attention.sliding_window": 1000}
    pattern: dict[str, Written] = {**window, "attention.sliding_window_pattern": [True, True, False, True]}
    cell = 4 * 2 * 8 * 128 * 2
    for more, windowed in ((window, 4), (pattern, 3)):
        path = model(tmp_path / f"{windowed}.gguf", 4, 8, 128, **more)
        assert full.host_bytes - estimate(path, n_ctx=8192).host_bytes == windowed * (8192 - 1536) * cell


def test_layers_without_attention_have_no_cache(tmp_path: Path) -> None:
    some, every = model(tmp_path / "some.gguf", 4, [8, 0, 0, 8], 128), model(tmp_path / "every.gguf", 4, 8, 128)
    weights = TENSOR_BYTES * 6 + PROCESS_BYTES
    assert 2 * (estimate(some).host_bytes - weights) == estimate(every).host_bytes - weights


def test_what_is_no_gguf_is_refused(tmp_path: Path) -> None:
    whole = model(tmp_path / "m.gguf", 4, 8, 128)
    assert read_header(whole).values["general.architecture"] == "test"
    for name, content in {"cut": whole.read_bytes()[:300], "other": b"\0" * 300, "empty": b""}.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match=name):
            estimate(path)
    with pytest.raises(NotFound):
        estimate(tmp_path / "missing.gguf")
    assert LlamaCpp().estimate_memory(LoadRequest(model="m", backend_class="llamacpp")) is None


def test_a_projector_and_its_model_are_told_apart_and_both_must_be_whole(tmp_path: Path) -> None:
    whole = model(tmp_path / "m.gguf", 4, 8, 128)
    projector = write(tmp_path / "mmproj.gguf", ["v.patch_embd.weight"], {"general.architecture": "clip"})
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(projector.read_bytes()[:60])

    def load(weights: Path, mmproj: Path) -> LoadRequest:
        return LoadRequest(model="m", backend_class="llamacpp", files={"weights": str(weights), "mmproj": str(mmproj)})

    assert LlamaCpp().estimate_memory(load(whole, projector)) is not None
    for weights, mmproj, refused in ((projector, projector, projector), (whole, whole, whole), (whole, cut, cut)):
        with pytest.raises(InvalidInput, match=refused.name):
            LlamaCpp().estimate_memory(load(weights, mmproj))


def test_layers_of_an_unknown_architecture_are_counted_by_their_tensors(tmp_path: Path) -> None:
    values = {"general.architecture": "other", "layers": 2}
    path = write(tmp_path / "m.gguf", ["token_embd.weight", "blk.0.w", "blk.1.w", "output.weight"], values)
    assert estimate(path, n_gpu_layers=0).device_bytes == 0
    assert estimate(path, n_gpu_layers=2).device_bytes == 2 * TENSOR_BYTES


def test_a_header_with_more_layers_than_any_model_and_one_without_weights_are_refused(tmp_path: Path) -> None:
    for path in (
        model(tmp_path / "many.gguf", 2, 8, 128, block_count=2**31),
        write(tmp_path / "none.gguf", [], {"general.architecture": "test", "test.block_count": 2}),
    ):
        with pytest.raises(InvalidInput):
            estimate(path)


def test_logits_are_of_the_vocabulary_that_the_file_lists_whether_or_not_it_states_a_size(tmp_path: Path) -> None:
    def compute(path: Path) -> int:
        params: dict[str, JsonValue] = {"n_ctx": 1024, "parallel": 1, "n_ubatch": 512}
        load = LoadRequest(model="m", backend_class="llamacpp", files={"weights": str(path)}, engine_params=params)
        estimated = LlamaCpp().estimate_whole(load)
        assert estimated is not None
        return estimated.parts["compute buffers"]

    mask = 2 * 1024 * 512
    listed, other = model(tmp_path / "listed.gguf", 2, 8, 8), model(tmp_path / "other.gguf", 2, 8, 8, vocab_size=9000)
    assert compute(listed) == compute(other) == 4 * 512 * 10_000 + mask
    values: dict[str, Written] = {"general.architecture": "test", "test.block_count": 1, "test.vocab_size": 7000}
    assert compute(write(tmp_path / "none.gguf", ["blk.0.w"], values)) == 4 * 512 * 7000 + mask


def whole(path: Path, mmproj: Path | None = None, **params: JsonValue) -> MemoryEstimate:
    files = {"weights": str(path)} | ({} if mmproj is None else {"mmproj": str(mmproj)})
    load = LoadRequest(model="m", backend_class="llamacpp", files=files, engine_params=params)
    estimated = LlamaCpp().estimate_whole(load)
    assert estimated is not None
    return estimated


def test_without_flash_attention_each_head_has_a_score_for_each_cell(tmp_path: Path) -> None:
    params: dict[str, JsonValue] = {"n_ctx": 8192, "parallel": 1, "n_ubatch": 512}
    path = model(tmp_path / "m.gguf", 2, 8, 8, feed_forward_length=512)
    activations = 4 * 512 * (2 * 512 + 8 * 32 * 8)
    flash, stored = whole(path, **params), whole(path, **params, flash_attn="off")
    assert flash.parts["compute buffers"] == 4 * 512 * 10_000 + 2 * 8192 * 512
    assert stored.parts["compute buffers"] == 512 * MIB + activations + 4 * 8192 * 512
    by_layer = write(
        tmp_path / "by-layer.gguf",
        ["blk.0.w", "blk.1.w"],
        {"general.architecture": "test", "test.block_count": 2, "test.attention.head_count": [8, 16]},
    )
    scores = 4 * 16 * 8192 * 512
    assert whole(by_layer, **params, flash_attn="off").parts["compute buffers"] == scores + 4 * 8192 * 512


def test_an_accelerator_also_holds_its_driver_and_what_a_vision_tower_computes_in(tmp_path: Path) -> None:
    weights = model(tmp_path / "m.gguf", 2, 8, 8)
    projector = write(tmp_path / "mmproj.gguf", ["v.patch_embd.weight"], {"general.architecture": "clip"})
    params: dict[str, JsonValue] = {"n_ctx": 1024, "parallel": 1, "n_gpu_layers": -1}
    alone, seeing = whole(weights, **params), whole(weights, projector, **params)
    aside = whole(weights, projector, **params, mmproj_offload="off")
    least = estimate(weights, **params)
    assert alone.device_bytes == least.device_bytes + alone.parts["compute buffers"] + 250 * MIB
    assert alone.host_bytes == least.host_bytes - PROCESS_BYTES + 150 * MIB
    assert seeing.device_bytes == alone.device_bytes + projector.stat().st_size + 1024 * MIB
    assert aside.device_bytes == alone.device_bytes
    for each in (alone, seeing, aside, whole(weights, projector, n_ctx=1024, parallel=1)):
        assert sum(each.parts.values()) == each.device_bytes + each.host_bytes
