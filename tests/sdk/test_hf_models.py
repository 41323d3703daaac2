"""What adapters read of a Hugging Face folder, and the memory that they estimate, checked by hand."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tests.support.wording import Wording
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.hf_folder import CONFIG, count_elements, model_folder, read_config
from vlmhyperbench_sdk.hf_memory import context_tokens, estimate_hf_memory
from vlmhyperbench_sdk.types import JsonObject
from vlmhyperbench_tiny_doc_vlm import path

TEXT: JsonObject = {
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "hidden_size": 32,
    "max_position_embeddings": 100,
}
"""A token has 2 x 2 layers x 1 head x 8 = 32 values in the cache."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    header = json.dumps(
        {
            "__metadata__": {"format": "pt"},
            "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
            "b": {"dtype": "BF16", "shape": [5], "data_offsets": [24, 34]},
            "c": {"dtype": "F8_E4M3", "shape": [], "data_offsets": [34, 35]},
        }
    ).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 35)
    (tmp_path / CONFIG).write_text(json.dumps({"text_config": TEXT, "dtype": "bfloat16"}))
    return tmp_path


def _load(folder: Path) -> LoadRequest:
    return LoadRequest(model="m", backend_class="e", files={file.name: str(file) for file in folder.iterdir()})


def test_a_folder_is_that_of_its_config_and_elements_are_counted_by_type(folder: Path) -> None:
    load = _load(folder)
    assert model_folder(load) == folder
    assert context_tokens(read_config(load)) == 100
    assert count_elements(load.files) == {"F32": 6, "BF16": 5, "F8_E4M3": 1}


def test_a_broken_header_counts_as_bytes(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\xff" * 50)
    (folder / "old.bin").write_bytes(b"\0" * 7)
    assert count_elements(_load(folder).files) == {"U8": 57}


def test_a_folder_without_config_or_weights_or_with_a_stray_file_is_refused(folder: Path, wording: Wording) -> None:
    files = _load(folder).files
    weights = files["model.safetensors"]
    for wrong in ({"model.safetensors": weights}, {CONFIG: files[CONFIG]}, {**files, "x": "/none/x"}):
        with pytest.raises(NotFound):
            model_folder(LoadRequest(model="m", backend_class="e", files=wrong))
    with pytest.raises(InvalidInput):
        model_folder(LoadRequest(model="m", backend_class="e", files={**files, "w.safetensors": weights}))
    with pytest.raises(NotFound) as refused:
        model_folder(LoadRequest(model="m", backend_class="e", files={"model.safetensors": weights}))
    wording(refused.value)


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff"])
def test_a_config_that_is_no_object_is_refused(folder: Path, content: bytes) -> None:
    (folder / CONFIG).write_bytes(content)
    with pytest.raises(InvalidInput, match=CONFIG):
        read_config(_load(folder))


def test_weights_take_the_type_of_the_load_and_quantised_ones_keep_theirs() -> None:
    elements = {"F32": 10, "BF16": 10, "U8": 10}
    sizes = {
        dtype: estimate_hf_memory({}, elements, tokens=0, dtype=dtype).weights_bytes
        for dtype in ("float32", "bfloat16")
    }
    assert sizes == {"float32": 90, "bfloat16": 50}
    assert estimate_hf_memory({}, elements, tokens=0, dtype="float32", weights_dtype="fp8").weights_bytes == 30


def test_a_cache_holds_keys_and_values_of_each_layer_for_each_token() -> None:
    config: JsonObject = {"text_config": TEXT}
    assert estimate_hf_memory(config, {}, tokens=10, dtype="bfloat16").kv_bytes == 10 * 32 * 2
    assert estimate_hf_memory(config, {}, tokens=10, dtype="bfloat16", kv_dtype="fp8").kv_bytes == 10 * 32
    assert estimate_hf_memory(TEXT, {}, tokens=10, dtype="float32").kv_bytes == 10 * 32 * 4
    windowed = {**TEXT, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}
    assert estimate_hf_memory(windowed, {}, tokens=10, dtype="fp8").kv_bytes == 16 * (10 + 4)
    latent = {**TEXT, "kv_lora_rank": 6, "qk_rope_head_dim": 2}
    assert estimate_hf_memory(latent, {}, tokens=10, dtype="fp8").kv_bytes == 2 * 10 * 8


def test_the_vision_tower_needs_the_activations_of_one_layer_for_each_patch() -> None:
    vision: JsonObject = {"image_size": 32, "patch_size": 16, "hidden_size": 3, "intermediate_size": 8}
    memory = estimate_hf_memory({"vision_config": vision}, {}, tokens=0, dtype="float32", images=2)
    assert memory.vision_bytes == 2 * 4 * (4 * 3 + 8) * 4
    assert memory.total_bytes == memory.vision_bytes


def test_the_tiny_reader_has_its_published_number_of_parameters() -> None:
    elements = count_elements({"model.safetensors": str(path("model.safetensors"))})
    assert sum(elements.values()) == pytest.approx(1.87e6, rel=0.01)
