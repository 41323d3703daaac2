"""Other people's load generators run against the gateway: `vllm bench serve` and the compiled `sglang-bench`.

`make clients` installs both and runs this; elsewhere it says which one is missing. `VLMHB_NEED_CLIENTS` makes a missing
vLLM a failure. SGLang has no wheel for every machine: without it the test is skipped, and says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.loadgen_conformance.clients import ClientLoad, SglangBench, VllmBench
from benchmarks.loadgen_conformance.running import ClientFailed, run_client
from tests.shared.cli.measuring import measured
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.testing.gateways import KEY, GatewayProcess
from vlmhyperbench_tiny_doc_vlm import path

MODEL = "simulated"
"""Under which the clients ask, whatever serves them."""

LOAD = ClientLoad(requests=8, streams=2, tokens=12)
CLIENTS = {"vllm": (VllmBench(), ("--ignore-eos",)), "sglang": (SglangBench(), ())}
"""Client, and what makes its answers as long as it asks: sglang-bench does so unasked."""


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayProcess]:
    """A gateway with a real model behind llama.cpp."""
    files = {"weights": str(path("tiny-doc-vlm-f16.gguf"))}
    params = {"n_ctx": 1024, "parallel": 2}
    with GatewayProcess() as process:
        answer = process.load(LoadRequest(model=MODEL, backend_class="llamacpp", files=files, engine_params=params))
        assert answer.status == 200, answer.body
        yield process


def _need(name: str) -> None:
    client, _ = CLIENTS[name]
    if client.version() is None:
        message = f"{client.name} is not installed: see what `make clients` said of it"
        if name == "vllm" and os.environ.get("VLMHB_NEED_CLIENTS"):
            pytest.fail(message)
        pytest.skip(message)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_real_client_gets_every_answer_at_the_length_that_it_asked_for(
    gateway: GatewayProcess, tmp_path: Path, name: str
) -> None:
    _need(name)
    client, more = CLIENTS[name]
    argv = client.argv(f"http://127.0.0.1:{gateway.port}", LOAD, tmp_path)
    assert argv is not None
    run_client([*argv, *more], env={**client.env, "OPENAI_API_KEY": KEY}, statuses={0}, log=tmp_path / "log")
    found = client.read(tmp_path)
    assert (found.completed, found.tokens) == (LOAD.requests, LOAD.requests * LOAD.tokens)
    assert all(found.texts)
    assert all(ttft_ms > 0 for ttft_ms in found.ttft_ms)


def test_a_real_client_without_the_key_gets_nothing(gateway: GatewayProcess, tmp_path: Path) -> None:
    _need("sglang")
    client, _ = CLIENTS["sglang"]
    argv = client.argv(f"http://127.0.0.1:{gateway.port}", replace(LOAD, requests=1, streams=1), tmp_path)
    assert argv is not None
    try:
        run_client(argv, env={**client.env, "OPENAI_API_KEY": "wrong"}, statuses={0}, log=tmp_path / "log")
    except ClientFailed:
        return
    assert client.read(tmp_path).completed == 0


def test_our_own_client_gets_the_same_lengths(
    gateway: GatewayProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", KEY)
    asked = {"requests": LOAD.requests, "concurrency": LOAD.streams, "output_tokens": LOAD.tokens}
    data = measured(
        capsys, f"http://127.0.0.1:{gateway.port}", model=MODEL, api_key_env="THE_KEY", ignore_eos=True, **asked
    )
    assert data["requests"]["ok"] == LOAD.requests
    assert data["tokens"]["completion"] == LOAD.requests * LOAD.tokens
