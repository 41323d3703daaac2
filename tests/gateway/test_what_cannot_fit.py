"""A gateway refuses a model that needs more memory than is free before it starts an engine, and loads the next."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.support.wording import Wording
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.testing.gateways import GatewayProcess
from vlmhyperbench_sdk.types import JsonValue
from vlmhyperbench_tiny_doc_vlm import path


def test_a_model_larger_than_the_memory_is_refused_and_the_next_one_is_loaded(tmp_path: Path) -> None:
    weights = tmp_path / "huge.gguf"
    shutil.copy(path("tiny-doc-vlm-q4_0.gguf"), weights)
    with weights.open("r+b") as file:
        file.truncate(4 * 2**40)  # a sparse file, which takes no space
    with GatewayProcess() as gateway:
        answer = gateway.load(LoadRequest(model="huge", backend_class="llamacpp", files={"weights": str(weights)}))
        assert (answer.status, answer.error_code()) == (400, "does_not_fit")
        assert gateway.status()["state"] == "unloaded"
        files = {"weights": str(path("tiny-doc-vlm-q4_0.gguf")), "mmproj": str(path("tiny-doc-vlm-mmproj-f16.gguf"))}
        assert gateway.load(LoadRequest(model="tiny", backend_class="llamacpp", files=files)).status == 200


def test_a_cache_larger_than_the_memory_is_refused_with_need_have_and_what_to_change(wording: Wording) -> None:
    files = {"weights": str(path("tiny-doc-vlm-q4_0.gguf"))}
    params: dict[str, JsonValue] = {"n_ctx": 10_000_000, "parallel": 256}
    with GatewayProcess() as gateway:
        answer = gateway.load(LoadRequest(model="m", backend_class="llamacpp", files=files, engine_params=params))
        assert (answer.status, answer.error_code()) == (400, "does_not_fit")
        wording(re.sub(r"of which [0-9,.]+", "of which HAVE", str(answer.json()["error"]["message"])))
        fitting = LoadRequest(model="m", backend_class="llamacpp", files=files, engine_params={"n_ctx": 1024})
        assert gateway.load(fitting).status == 200
