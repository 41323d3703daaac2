"""Every first-party adapter passes the conformance suite behind a real gateway, with a real engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vlmhyperbench_llamacpp.adapter import LlamaCpp
from vlmhyperbench_openai.adapter import OpenAICompatible
from vlmhyperbench_pipeline.adapter import ServedPipeline
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import Backend
from vlmhyperbench_sdk.testing.backends import BackendCase, check_backend, check_translation
from vlmhyperbench_sdk.testing.gateways import GatewayProcess
from vlmhyperbench_simulated.adapter import Simulated
from vlmhyperbench_simulated.process import SimulatedProcess
from vlmhyperbench_simulated.simulation import Simulation
from vlmhyperbench_tiny_doc_vlm import path

SECRET = "sk-conformance/secret+value"


def test_the_simulated_engine_is_a_backend() -> None:
    good = LoadRequest(model="sim", backend_class="simulated", engine_params={"tokens": 4})
    crash = LoadRequest(model="sim", backend_class="simulated", engine_params={"crash_at_start": True})
    late = LoadRequest(model="sim", backend_class="simulated", engine_params={"start_ms": 60_000}, load_timeout_s=0.2)
    check_backend(BackendCase(load=good, bad_loads={"a crash at its start": crash, "a start that is too slow": late}))


def test_an_openai_compatible_url_is_a_backend() -> None:
    with SimulatedProcess(Simulation(tokens=4), api_key=SECRET) as engine:
        params = {"url": f"{engine.url}/v1", "api_key_secret": "KEY"}
        good = LoadRequest(model="m", backend_class="openai", engine_params=params, env={"KEY": SECRET})
        wrong = LoadRequest(model="m", backend_class="openai", engine_params=params, env={"KEY": "sk-wrong-secret"})
        missing = LoadRequest(model="m", backend_class="openai", engine_params=params)
        closed = LoadRequest(model="m", backend_class="openai", engine_params={"url": "http://127.0.0.1:9/v1"})
        check_backend(
            BackendCase(
                load=good,
                bad_loads={"no secret": missing, "a URL where nothing listens": closed, "a wrong key": wrong},
                gateway_arguments=("--allow-loopback",),
                passes_on=True,
            )
        )


def test_llama_cpp_is_a_backend(tmp_path: Path) -> None:
    weights, mmproj = path("tiny-doc-vlm-f16.gguf"), path("tiny-doc-vlm-mmproj-f16.gguf")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + weights.read_bytes()[4:4096])
    params = {"n_ctx": 512, "parallel": 1, "threads": 1}
    good = LoadRequest(
        model="tiny",
        backend_class="llamacpp",
        files={"weights": str(weights), "mmproj": str(mmproj)},
        engine_params=params,
    )
    cut = LoadRequest(model="tiny", backend_class="llamacpp", files={"weights": str(broken)}, engine_params=params)
    absent = LoadRequest(model="tiny", backend_class="llamacpp", files={"weights": str(tmp_path / "none")})
    check_backend(BackendCase(load=good, bad_loads={"a file that is cut": cut, "no file": absent}))


@pytest.mark.parametrize(
    "backend", [Simulated(), OpenAICompatible(), LlamaCpp(), ServedPipeline()], ids=lambda kind: type(kind).__name__
)
def test_translation_is_pure_and_total(backend: Backend) -> None:
    check_translation(backend)


def test_llama_cpp_gives_several_choices_and_ignores_the_end_token_on_request() -> None:
    files = {"weights": str(path("tiny-doc-vlm-f16.gguf"))}
    load = LoadRequest(
        model="tiny", backend_class="llamacpp", files=files, engine_params={"n_ctx": 512, "parallel": 2, "threads": 1}
    )
    case = BackendCase(load=load)
    with GatewayProcess() as gateway:
        assert gateway.load(load).status == 200
        streamed = gateway.chat(case.request(n=2, stream=True, ignore_eos=True, max_tokens=20)).events()
        assert streamed[-1] == "[DONE]"
        choices = [choice for event in streamed[:-1] for choice in json.loads(event)["choices"]]
        ended = {choice["index"]: choice["finish_reason"] for choice in choices if choice["finish_reason"]}
        assert ended == {0: "length", 1: "length"}
        assert {choice["index"] for choice in choices if choice["delta"].get("content")} == {0, 1}
        whole = gateway.chat(case.request(repeat_penalty=1.1, ignore_eos=True, max_tokens=20)).json()
        assert whole["usage"]["completion_tokens"] == 20
        for field in ("min_tokens", "n_keep"):
            refused = gateway.chat(case.request(**{field: 3}))
            assert (refused.status, field in refused.body.decode()) == (400, True)
