"""The transformers adapter: what varies is pinned, wrong input is refused by name, memory is estimated."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tests.support.wording import Wording
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import EngineLaunch
from vlmhyperbench_sdk.testing.backends import check_translation
from vlmhyperbench_sdk.types import JsonValue
from vlmhyperbench_transformers.adapter import SHIM, Transformers

TEXT = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 32}
MAX_POSITIONS = 128


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model of 1,000 parameters in 16 bits, and 10 bytes of integers."""
    config = {"dtype": "bfloat16", "text_config": {**TEXT, "max_position_embeddings": MAX_POSITIONS}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    tensors = {"a": {"dtype": "BF16", "shape": [10, 100]}, "b": {"dtype": "U8", "shape": [10]}, "__metadata__": {}}
    header = json.dumps(tensors).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    return tmp_path


def _load(folder: Path, **params: JsonValue) -> LoadRequest:
    files = {path.name: str(path) for path in folder.iterdir()}
    return LoadRequest(model="m", backend_class="transformers", files=files, engine_params=params)


def _options(folder: Path, **params: JsonValue) -> dict[str, str]:
    launch = Transformers().plan_engine(_load(folder, **params), port=4321, python="/engine/python")
    assert isinstance(launch, EngineLaunch)
    assert launch.argv[:3] == ("/engine/python", "-I", str(SHIM))
    return dict(zip(launch.argv[3::2], launch.argv[4::2], strict=True))


def test_every_parameter_that_varies_is_on_the_command_line(folder: Path) -> None:
    assert _options(folder, max_batch=3, device="cuda:1") == {
        "--host": "127.0.0.1",
        "--port": "4321",
        "--name": "m",
        "--folder": str(folder),
        "--max-context": "4096",
        "--max-batch": "3",
        "--max-waiting": "256",
        "--threads": "0",
        "--dtype": "bfloat16",
        "--attention": "sdpa",
        "--compile": "off",
        "--device-map": "none",
        "--sampling-defaults": "engine",
        "--trust-remote-code": "off",
        "--device": "cuda:1",
    }


def test_nothing_is_fetched_from_a_hub(folder: Path) -> None:
    launch = Transformers().plan_engine(_load(folder), port=1, python="p")
    assert isinstance(launch, EngineLaunch)
    assert launch.env["HF_HUB_OFFLINE"] == "1"


@pytest.mark.parametrize(
    "params",
    [
        {"n_ctx": 1},
        {"max_batch": 0},
        {"max_context": True},
        {"dtype": "int4"},
        {"device": "tpu"},
        {"device": "cuda:0", "device_map": "auto"},
    ],
)
def test_a_wrong_parameter_is_refused_by_name(folder: Path, params: dict[str, JsonValue], wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        _options(folder, **params)
    wording(refused.value)


def test_a_model_without_its_files_is_refused(folder: Path, tmp_path: Path, wording: Wording) -> None:
    plan = Transformers().plan_engine
    with pytest.raises(NotFound) as refused:
        plan(LoadRequest(model="m", backend_class="transformers"), port=1, python="p")
    wording(refused.value)
    files = {"config.json": str(folder / "config.json"), "model.safetensors": "/nowhere/model.safetensors"}
    with pytest.raises(NotFound) as refused:
        plan(LoadRequest(model="m", backend_class="transformers", files=files), port=1, python="p")
    wording(refused.value)
    elsewhere = Path(__file__)
    files = {"config.json": str(folder / "config.json"), "model.safetensors": str(elsewhere)}
    with pytest.raises(InvalidInput, match=r"is not .*model\.safetensors"):
        plan(LoadRequest(model="m", backend_class="transformers", files=files), port=1, python="p")


def test_requests_are_translated_or_refused_by_name(wording: Wording) -> None:
    check_translation(Transformers())
    request: dict[str, JsonValue] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    body = Transformers().to_engine({**request, "min_tokens": 3, "n": 2, "model_params": {"repetition_penalty": 1.1}})
    assert body == {**request, "min_tokens": 3, "n": 2, "repetition_penalty": 1.1}
    with pytest.raises(InvalidInput) as refused:
        Transformers().to_engine({**request, "tools": []})
    assert refused.value.code == "unsupported"
    wording(refused.value)


def test_memory_is_weights_and_the_cache_of_one_answer(folder: Path) -> None:
    head = 32 // 4
    per_token = 2 * 2 * 2 * head
    estimates = {
        name: Transformers().estimate_memory(_load(folder, **params))
        for name, params in {
            "on a device": {},
            "short": {"max_context": 64},
            "in 32 bits": {"dtype": "float32"},
            "on the processor": {"device": "cpu"},
        }.items()
    }
    device = {name: estimate.device_bytes for name, estimate in estimates.items() if estimate is not None}
    assert device["on a device"] - device["short"] == (MAX_POSITIONS - 64) * per_token * 2
    assert device["in 32 bits"] - device["on a device"] == 1000 * 2 + MAX_POSITIONS * per_token * 2
    assert device["on the processor"] == 0
    assert device["on a device"] == 2010 + MAX_POSITIONS * per_token * 2
    on_device, on_host = estimates["on a device"], estimates["on the processor"]
    assert on_device is not None
    assert on_host is not None
    assert on_host.host_bytes - on_device.host_bytes == device["on a device"]
    assert (on_host.source, on_host.knobs) == ("static", ("max_context", "dtype"))


def test_a_vision_tower_adds_its_activations(folder: Path) -> None:
    before = Transformers().estimate_memory(_load(folder))
    config = json.loads((folder / "config.json").read_text())
    config["vision_config"] = {"image_size": 28, "patch_size": 14, "hidden_size": 8, "intermediate_size": 16}
    (folder / "config.json").write_text(json.dumps(config))
    after = Transformers().estimate_memory(_load(folder))
    assert before is not None
    assert after is not None
    assert after.device_bytes - before.device_bytes == 4 * (4 * 8 + 16) * 2


def test_memory_of_an_unreadable_model_is_unknown_or_refused(folder: Path) -> None:
    assert Transformers().estimate_memory(LoadRequest(model="m", backend_class="transformers")) is None
    (folder / "config.json").write_text("[")
    with pytest.raises(InvalidInput, match=r"config\.json is not JSON"):
        Transformers().estimate_memory(_load(folder))
