"""The transformers engine in trouble: memory that runs out, a kill in the middle of a stream; and how it is loaded.

The tests need the environment that `make clients` installs, and are skipped without it.
"""

from __future__ import annotations

import http.client
import json
import os
import resource
import signal
from collections.abc import Iterator

import psutil
import pytest

from tests.engines.transformers_server import PYTHON, answers_of_generate, load_request, need_engine, serve
from vlmhyperbench_sdk.gateway import EngineEnvironment
from vlmhyperbench_sdk.testing.gateways import KEY, GatewayProcess
from vlmhyperbench_tiny_doc_vlm import path

TINY = path("config.json", "0.2").parent
SPARE_BYTES = 16 * 2**20
"""Memory that is left to an engine: enough for a short answer, too little for the caches of 64 long ones."""
LARGE = {"content": "word " * 150, "n": 64, "temperature": 1, "seed": 1, "max_tokens": 20, "ignore_eos": True}


@pytest.fixture
def gateway() -> Iterator[GatewayProcess]:
    """A gateway whose engines run in transformers' environment."""
    need_engine()
    with GatewayProcess(env=EngineEnvironment(python=str(PYTHON)).to_variables()) as process:
        yield process


def _limit(pid: int, size_bytes: int) -> None:
    resource.prlimit(pid, resource.RLIMIT_AS, (size_bytes, resource.RLIM_INFINITY))


def test_memory_that_runs_out_costs_the_request_that_needs_it_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    need_engine()
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "65536")  # so that tensors come from the system, not from a reserve
    with serve(TINY, max_batch=64, max_context=1024) as running:
        before = running.chat(max_tokens=20)
        assert before.status == 200
        _limit(running.process.pid, psutil.Process(running.process.pid).memory_info().vms + SPARE_BYTES)
        refused = running.chat(**LARGE)
        assert (refused.status, refused.code) == (507, "oom"), refused.body
        assert running.chat(max_tokens=20).text == before.text
        _limit(running.process.pid, resource.RLIM_INFINITY)
        assert len(running.chat(**LARGE).json["choices"]) == 64


def test_an_engine_that_is_killed_in_a_stream_ends_it_with_an_error_and_the_next_load_works(
    gateway: GatewayProcess,
) -> None:
    assert gateway.load(load_request(TINY)).status == 200
    engine = gateway.status()["engine"]
    assert isinstance(engine, dict)
    messages = [{"role": "user", "content": "Hello"}]
    body = {"model": "m", "messages": messages, "stream": True, "ignore_eos": True, "max_tokens": 900}
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"X-API-Key": KEY})
        stream = connection.getresponse()
        assert stream.status == 200
        assert stream.readline().startswith(b"data: ")
        os.kill(int(str(engine["pid"])), signal.SIGKILL)
        *_, last = [line for line in stream.read().decode().split("\n") if line]
    finally:
        connection.close()
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "engine_exited", last
    status = gateway.status()
    assert (status["state"], status["error_code"]) == ("error", "engine_exited")
    assert gateway.load(load_request(TINY)).status == 200
    assert gateway.chat({"model": "m", "messages": messages, "max_tokens": 4}).status == 200


@pytest.mark.timeout(900)
def test_how_a_model_is_loaded_is_chosen_by_parameters_and_stated() -> None:
    need_engine()
    questions = [
        {"model": "m", "messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 20}
        for text in ("Hello", "What is the total?", "Name the buyer of this invoice.")
    ]
    with serve(TINY, dtype="bfloat16", device="cpu") as running:
        props = running.call("GET", "/props").json
        assert (props["dtype"], props["device"], props["attention"]) == ("bfloat16", "cpu", "sdpa")
    with serve(TINY, attention="eager", device_map="auto") as running:
        props = running.call("GET", "/props").json
        assert (props["attention"], props["compile"]) == ("eager", "off")
        assert props["device"] == "cpu"  # where there is no GPU, a device map has nothing to share out
        assert running.ask_all(questions, 3) == answers_of_generate(TINY, questions)


@pytest.mark.timeout(900)
def test_a_compiled_step_answers_as_generate_does() -> None:
    need_engine()
    asked = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "temperature": 0, "max_tokens": 20}
    with serve(TINY, compile="default") as running:
        assert running.call("GET", "/props").json["compile"] == "default"
        assert running.ask_all([asked], 1) == answers_of_generate(TINY, [asked])
