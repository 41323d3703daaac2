"""A gateway refuses a model that needs more memory than is free before it starts an engine, and loads the next."""

from __future__ import annotations

from pathlib import Path

from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.testing.gateways import GatewayProcess
from vlmhyperbench_tiny_doc_vlm import path


def test_a_model_larger_than_the_memory_is_refused_and_the_next_one_is_loaded(tmp_path: Path) -> None:
    weights = tmp_path / "huge.gguf"
    with weights.open("wb") as file:
        file.truncate(4 * 2**40)  # a sparse file, which takes no space
    with GatewayProcess() as gateway:
        answer = gateway.load(LoadRequest(model="huge", backend_class="llamacpp", files={"weights": str(weights)}))
        assert (answer.status, answer.error_code()) == (400, "does_not_fit")
        assert gateway.status()["state"] == "unloaded"
        files = {"weights": str(path("tiny-doc-vlm-q4_0.gguf")), "mmproj": str(path("tiny-doc-vlm-mmproj-f16.gguf"))}
        assert gateway.load(LoadRequest(model="tiny", backend_class="llamacpp", files=files)).status == 200
