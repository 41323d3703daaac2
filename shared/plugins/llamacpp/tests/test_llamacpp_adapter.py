"""The llama.cpp adapter: everything that llama.cpp would choose by itself is pinned."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.wording import Wording
from vlmhyperbench_llamacpp.adapter import SHIM, LlamaCpp
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import EngineLaunch
from vlmhyperbench_sdk.testing.backends import check_translation
from vlmhyperbench_sdk.types import JsonValue


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + b"\0" * 96)
    return path


def _load(weights: Path, **params: JsonValue) -> LoadRequest:
    return LoadRequest(model="m", backend_class="llamacpp", files={"weights": str(weights)}, engine_params=params)


def _options(weights: Path, **params: JsonValue) -> dict[str, str]:
    launch = LlamaCpp().plan_engine(_load(weights, **params), port=4321, python="/engine/python")
    assert isinstance(launch, EngineLaunch)
    assert launch.argv[:3] == ("/engine/python", "-I", str(SHIM))
    return dict(zip(launch.argv[3::2], launch.argv[4::2], strict=True))


def test_every_parameter_that_varies_is_on_the_command_line(weights: Path) -> None:
    options = _options(weights, threads=3)
    assert options == {
        "--host": "127.0.0.1",
        "--port": "4321",
        "--alias": "m",
        "--model": str(weights),
        "--n-ctx": "4096",
        "--parallel": "4",
        "--threads": "3",
        "--n-batch": "2048",
        "--n-ubatch": "512",
        "--n-gpu-layers": "0",
        "--flash-attn": "on",
        "--cache-type-k": "f16",
        "--cache-type-v": "f16",
        "--mmproj-offload": "on",
        "--image-max-tokens": "0",
    }


def test_half_of_the_cores_work_unless_said(weights: Path) -> None:
    assert int(_options(weights)["--threads"]) == max(1, (os.cpu_count() or 1) // 2)


def test_the_projector_is_passed_on(weights: Path) -> None:
    load = LoadRequest(model="m", backend_class="llamacpp", files={"weights": str(weights), "mmproj": str(weights)})
    launch = LlamaCpp().plan_engine(load, port=1, python="python")
    assert isinstance(launch, EngineLaunch)
    assert launch.argv[launch.argv.index("--mmproj") + 1] == str(weights)


@pytest.mark.parametrize(
    "params",
    [{"ctx": 1}, {"n_ctx": 16}, {"n_ctx": True}, {"parallel": 0}, {"cache_type_k": "q9"}, {"flash_attn": True}],
)
def test_a_wrong_parameter_is_refused_by_name(weights: Path, params: dict[str, JsonValue], wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        _options(weights, **params)
    wording(refused.value)


def test_missing_files_are_said(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(NotFound) as refused:
        _options(tmp_path / "none.gguf")
    wording(refused.value)
    with pytest.raises(NotFound) as refused:
        LlamaCpp().plan_engine(LoadRequest(model="m", backend_class="llamacpp"), port=1, python="p")
    wording(refused.value)
    with pytest.raises(InvalidInput) as refused:
        LlamaCpp().plan_engine(
            LoadRequest(model="m", backend_class="llamacpp", files={"lora": "/x"}), port=1, python="p"
        )
    wording(refused.value)


def test_what_a_request_that_samples_does_not_state_is_neutral() -> None:
    request: dict[str, JsonValue] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "top_p": 0.5}
    body = LlamaCpp().to_engine(request)
    assert (body["temperature"], body["top_k"], body["top_p"], body["min_p"]) == (1.0, 0, 0.5, 0.0)
    assert "top_k" not in LlamaCpp().to_engine({**request, "temperature": 0})


def test_the_prompt_cache_is_off_in_every_request() -> None:
    request: dict[str, JsonValue] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    assert LlamaCpp().to_engine(request)["cache_prompt"] is False
    check_translation(LlamaCpp())
