"""Load generators of other projects run against the gateway: `vllm bench serve` and the compiled `sglang-bench`.

`make clients` installs both and runs these tests. Without a client its tests are skipped, with its name as the reason.
With `VLMHB_NEED_CLIENTS` a missing vLLM is a failure; SGLang has no wheel for some machines, so it is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.loadgen_conformance.clients import ClientLoad, SglangBench, VllmBench
from benchmarks.loadgen_conformance.running import ClientFailed, run_client
from tests.shared.cli.measuring import measured
from tests.support.needs import skip_or_fail
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.testing.gateways import KEY, GatewayProcess
from vlmhyperbench_tiny_doc_vlm import path

MODEL = "simulated"
"""The name of the model in the requests of all clients."""

LOAD = ClientLoad(requests=8, streams=2, tokens=12)
CLIENTS = {"vllm": (VllmBench(), ("--ignore-eos",)), "sglang": (SglangBench(), ())}
"""Each client, and the options with which every answer has the requested length; sglang-bench needs none."""


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayProcess]:
    """A gateway with a real model, served by llama.cpp."""
    files = {"weights": str(path("tiny-doc-vlm-f16.gguf"))}
    params = {"n_ctx": 1024, "parallel": 2}
    with GatewayProcess() as process:
        answer = process.load(LoadRequest(model=MODEL, backend_class="llamacpp", files=files, engine_params=params))
        assert answer.status == 200, answer.body
        yield process


def _need(name: str) -> None:
    client, _ = CLIENTS[name]
    if client.version() is None:
        message = f"{client.name} is not installed: the output of `make clients` states the reason"
        if name == "vllm":
            skip_or_fail(message)
        pytest.skip(message)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_real_client_gets_every_answer_in_the_requested_length(
    gateway: GatewayProcess, tmp_path: Path, name: str
) -> None:
    _need(name)
    client, options = CLIENTS[name]
    argv = client.argv(f"http://127.0.0.1:{gateway.port}", LOAD, tmp_path)
    assert argv is not None
    run_client([*argv, *options], env={**client.env, "OPENAI_API_KEY": KEY}, statuses={0}, log=tmp_path / "log")
    reported = client.read(tmp_path)
    assert (reported.completed, reported.tokens) == (LOAD.requests, LOAD.requests * LOAD.tokens)
    assert all(reported.texts)
    assert all(ttft_ms > 0 for ttft_ms in reported.ttft_ms)


def test_a_real_client_with_a_wrong_key_gets_no_answer(gateway: GatewayProcess, tmp_path: Path) -> None:
    _need("sglang")
    client, _ = CLIENTS["sglang"]
    argv = client.argv(f"http://127.0.0.1:{gateway.port}", replace(LOAD, requests=1, streams=1), tmp_path)
    assert argv is not None
    try:
        run_client(
            [*argv, "--ready-check-timeout-sec", "2"],
            env={**client.env, "OPENAI_API_KEY": "wrong"},
            statuses={0},
            log=tmp_path / "log",
        )
    except ClientFailed:
        return
    assert client.read(tmp_path).completed == 0


def test_our_client_gets_the_same_lengths(
    gateway: GatewayProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", KEY)
    options = {"requests": LOAD.requests, "concurrency": LOAD.streams, "output_tokens": LOAD.tokens}
    data = measured(
        capsys, f"http://127.0.0.1:{gateway.port}", model=MODEL, api_key_env="THE_KEY", ignore_eos=True, **options
    )
    assert data["requests"]["ok"] == LOAD.requests
    assert data["tokens"]["completion"] == LOAD.requests * LOAD.tokens
