"""The gateway as a process: keys, limits, streams, the engine's end and its own."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.shared.serving.members import Member
from tests.support.processes import PATIENCE_S
from vlmhyperbench_gateway.app import make_app
from vlmhyperbench_gateway.settings import GatewaySettings
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.testing.gateways import KEY, GatewayProcess, GatewayResponse
from vlmhyperbench_sdk.types import JsonValue
from vlmhyperbench_simulated.process import SimulatedProcess
from vlmhyperbench_simulated.simulation import Simulation
from vlmhyperbench_tiny_doc_vlm import path, sha256

SECRET = "sk-gateway/secret+value"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    root = tmp_path_factory.mktemp("data")
    (root / "page.png").write_bytes(_png())
    (root / "note.txt").write_text("no image")
    (root / "away").symlink_to("/etc")
    with GatewayProcess("--allow-loopback", "--data-root", str(root), env={"PARENT_SECRET": SECRET}) as process:
        yield process


def _png(width: int = 1, height: int = 1) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


def _load(gateway: GatewayProcess, *, env: dict[str, str] | None = None, **params: JsonValue) -> dict[str, Any]:
    request = LoadRequest(
        model="sim", backend_class="simulated", engine_params={"tokens": 4, **params}, env=env or {}, replace=True
    )
    answer = gateway.load(request)
    assert answer.status == 200, answer.body
    return answer.json()


def _request(url: str | None = None, **more: JsonValue) -> dict[str, JsonValue]:
    content: JsonValue = [{"type": "text", "text": "Hi"}]
    if url is not None:
        content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "Hi"}]
    return {"model": "sim", "messages": [{"role": "user", "content": content}], **more}


def _open_stream(gateway: GatewayProcess, *, is_streamed: bool = True) -> socket.socket:
    body = json.dumps(_request(stream=is_streamed)).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\ncontent-length: {len(body)}\r\n\r\n"
    link = socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE_S)
    link.sendall(head.encode() + body)
    return link


def _get(url: str) -> dict[str, Any]:
    port = int(url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as link:
        link.sendall(b"GET /record HTTP/1.1\r\nconnection: close\r\n\r\n")
        data = b"".join(iter(lambda: link.recv(65_536), b""))
    parsed: dict[str, Any] = json.loads(data.partition(b"\r\n\r\n")[2])
    return parsed


def _when(gateway: GatewayProcess, is_so: Callable[[dict[str, JsonValue]], bool]) -> dict[str, JsonValue]:
    """Ask for the status until it is so."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so(status := gateway.status()):
        assert time.monotonic() < deadline_s, f"the status stays {status}"
    return status


def test_the_key_is_accepted_as_header_and_as_bearer_and_health_needs_none(gateway: GatewayProcess) -> None:
    for headers in ({"X-API-Key": KEY}, {"Authorization": f"Bearer {KEY}"}, {"Authorization": f"bearer {KEY}"}):
        assert gateway.call("GET", "/v1/model/status", headers=headers).status == 200
    assert gateway.call("GET", "/health", headers={}).status == 200
    for path_ in ("/metrics", "/v1/models", "/v1/model/status", "/openapi.json", "/nowhere"):
        assert gateway.call("GET", path_, headers={}).status == 401


def test_the_forwarded_bytes_are_those_of_the_load_plan(gateway: GatewayProcess, tmp_path: Path) -> None:
    status = _load(gateway, record=True)
    picture = tmp_path / "picture"
    picture.write_bytes(_png())
    data_url = "data:image/png;base64," + base64.b64encode(_png()).decode()
    more: dict[str, JsonValue] = {"stream": True, "stream_options": {"include_usage": True}, "temperature": 0.0}
    gateway.chat(_request(data_url, **more))
    requests, out = tmp_path / "requests.jsonl", tmp_path / "bodies.bin"
    line = {"ordinal": 0, "request": _request("sha256:abc", **more)}
    requests.write_text(json.dumps(line) + "\n")
    order = {"backend_class": "simulated", "requests": str(requests), "out": str(out), "images": {"abc": str(picture)}}
    subprocess.run(
        [sys.executable, "-m", "vlmhyperbench_gateway.bodies"], input=json.dumps(order), text=True, check=True
    )
    [record] = _get(status["engine_url"])["records"]
    assert record["body_sha256"] == hashlib.sha256(out.read_bytes()).hexdigest()


def test_an_image_below_the_data_root_is_sent_as_data(gateway: GatewayProcess) -> None:
    _load(gateway)
    assert gateway.chat(_request("page.png")).status == 200
    assert gateway.chat(_request("file://page.png")).status == 200
    assert gateway.chat(_request("none.png")).status == 404
    for url in ("../page.png", "/etc/passwd", "away/passwd", "note.txt", "http://127.0.0.1/x.png", "data:text/plain,x"):
        assert gateway.chat(_request(url)).status == 400, url
    for data in ("data:image/png;base64,!!!!", "data:image/png;base64,AAAA", "data:image/svg+xml;base64,PHN2Zy8+"):
        assert gateway.chat(_request(data)).status == 400, data


def test_an_image_that_decodes_to_gigabytes_never_reaches_the_engine(gateway: GatewayProcess) -> None:
    _load(gateway)
    for width, status in ((10_000, 200), (10_001, 400)):
        url = "data:image/png;base64," + base64.b64encode(_png(width, 10_000)).decode()
        answer = gateway.chat(_request(url))
        assert answer.status == status, answer.body
    assert answer.json()["error"]["code"] == "invalid_image"


def test_requests_above_the_maximum_in_flight_are_answered_429() -> None:
    load = {"model": "sim", "backend_class": "simulated"}
    settings = GatewaySettings(key=KEY, max_in_flight=0)
    with TestClient(make_app(settings), headers={"X-API-Key": KEY}) as client:
        assert client.post("/v1/model/load", json=load).status_code == 200
        refused = client.post("/v1/chat/completions", json=dict(_request()))
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "busy")
    assert refused.headers["retry-after"] == "1"


def test_the_request_of_a_client_that_disconnects_is_no_longer_in_flight(gateway: GatewayProcess) -> None:
    _load(gateway, ttft_ms=3_600_000)
    waiting = [_open_stream(gateway) for _ in range(2)]
    for link in waiting:
        assert link.recv(12) == b"HTTP/1.1 200"
    assert b"requests_in_flight 2" in gateway.call("GET", "/metrics").body
    for link in waiting:
        link.close()
    for _ in range(10_000):
        if b"requests_in_flight 0" in gateway.call("GET", "/metrics").body:
            break
    else:
        raise AssertionError("a client that went away is still counted")


@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_client_that_leaves_before_its_answer_has_begun_ends_the_request_of_the_engine(is_streamed: bool) -> None:
    engine = Member(is_silent=True)
    with engine.serving() as url, GatewayProcess("--allow-loopback") as gateway:
        loaded = gateway.load(LoadRequest(model="sim", backend_class="openai", engine_params={"url": url}))
        assert loaded.status == 200, loaded.body
        with _open_stream(gateway, is_streamed=is_streamed):
            assert engine.was_asked.wait(PATIENCE_S)
        assert engine.was_left.wait(PATIENCE_S)


def test_a_body_that_is_too_large_is_refused_before_it_is_read(gateway: GatewayProcess) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE_S) as link:
        head = f"POST /v1/model/load HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\ncontent-length: 9999999999\r\n\r\n"
        link.sendall(head.encode())
        assert link.recv(12) == b"HTTP/1.1 413"


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'{"model": "m"}',
        b'{"model": "m", "backend_class": "simulated", "cheese": 1}',
        b'{"model": "m", "backend_class": "simulated", "env": {"LD_PRELOAD": "/x"}}',
        b'{"model": "m", "backend_class": "simulated", "files": {"weights": "relative"}}',
        b'{"model": "m", "backend_class": "simulated", "load_timeout_s": -1}',
        b'{"model": "m", "backend_class": "os:system", "replace": true}',
        b'{"model": "m", "backend_class": "subprocess.Popen", "replace": true}',
    ],
)
def test_a_malformed_load_is_refused(gateway: GatewayProcess, body: bytes) -> None:
    assert gateway.call("POST", "/v1/model/load", body).status == 400


def test_an_unknown_adapter_is_refused_with_the_nearest_name(gateway: GatewayProcess) -> None:
    answer = gateway.load(LoadRequest(model="m", backend_class="simulatd", replace=True))
    assert answer.status == 404
    assert "simulated" in answer.body.decode()


def test_the_engine_s_environment_has_the_secrets_of_the_load_and_no_others(gateway: GatewayProcess) -> None:
    status = _load(gateway, env={"HF_TOKEN": SECRET})
    environment = Path(f"/proc/{status['engine']['pid']}/environ").read_bytes()
    assert b"HF_TOKEN=" + SECRET.encode() in environment
    assert b"PARENT_SECRET" not in environment
    assert KEY.encode() not in environment
    gateway.unload()


def test_a_secret_in_the_end_of_the_engine_s_output_is_masked(gateway: GatewayProcess) -> None:
    request = LoadRequest(
        model="sim",
        backend_class="simulated",
        engine_params={"answer": SECRET, "crash_at_start": True},
        env={"TOKEN": SECRET},
        replace=True,
    )
    answer = gateway.load(request)
    assert answer.status == 502
    assert answer.error_code() == "load_failed"
    assert SECRET not in answer.body.decode() + json.dumps(gateway.status())


def test_the_end_of_the_engine_is_noticed_and_another_load_works(gateway: GatewayProcess) -> None:
    pid = _load(gateway)["engine"]["pid"]
    os.kill(pid, signal.SIGKILL)
    status = _when(gateway, lambda now: now["state"] == "error")
    assert "SIGKILL" in str(status["error"])
    assert gateway.chat(_request()).status == 409
    assert _load(gateway)["state"] == "ready"


def test_a_stream_whose_engine_dies_ends_with_the_reason(gateway: GatewayProcess) -> None:
    pid = _load(gateway, ttft_ms=1, gap_ms=3_600_000)["engine"]["pid"]
    with _open_stream(gateway) as link:
        received = b""
        while b'"content"' not in received:
            received += link.recv(65_536)
        os.kill(pid, signal.SIGKILL)
        while piece := link.recv(65_536):
            received += piece
            if received.endswith(b"0\r\n\r\n"):
                break
    events = [line[6:] for line in received.decode().splitlines() if line.startswith("data: ")]
    assert "[DONE]" not in events
    assert "SIGKILL" in json.loads(events[-1])["error"]["message"]


def test_an_unload_cancels_a_load_in_progress(gateway: GatewayProcess) -> None:
    gateway.unload()
    slow = LoadRequest(model="sim", backend_class="simulated", engine_params={"start_ms": 3_600_000})
    answers: list[GatewayResponse] = []
    loading = threading.Thread(target=lambda: answers.append(gateway.load(slow)))
    loading.start()
    _when(gateway, lambda now: now["state"] == "loading")
    assert gateway.load(slow).status == 409
    assert gateway.unload().json()["state"] == "unloaded"
    loading.join()
    assert answers[0].error_code() == "load_cancelled"


def test_errors_of_the_engine_pass_with_their_status(gateway: GatewayProcess) -> None:
    _load(gateway, failure_rate=1.0, failure_status=429)
    answer = gateway.chat(_request(stream=True))
    assert (answer.status, answer.error_code()) == (429, "simulated_failure")


def test_a_truncated_answer_is_an_error_and_not_a_short_answer(gateway: GatewayProcess) -> None:
    _load(gateway, failure_rate=1.0, failure="cut")
    assert gateway.chat(_request()).status == 502
    assert "error" in json.loads(gateway.chat(_request(stream=True)).events()[-1])


def test_a_remote_error_never_shows_the_key(gateway: GatewayProcess) -> None:
    with SimulatedProcess(Simulation(tokens=2, answer=SECRET), api_key=SECRET) as engine:
        params: dict[str, JsonValue] = {"url": engine.url}
        request = LoadRequest(model="m", backend_class="openai", engine_params=params, env={"K": SECRET}, replace=True)
        assert gateway.load(request).status == 200
        assert SECRET not in gateway.call("GET", "/v1/model/status").body.decode()


def test_a_key_that_an_endpoint_refuses_is_invalid_input(gateway: GatewayProcess) -> None:
    with SimulatedProcess(Simulation(), api_key="sk-the-right-key") as engine:
        params: dict[str, JsonValue] = {"url": engine.url, "api_key_secret": "K"}
        wrong = LoadRequest(model="m", backend_class="openai", engine_params=params, env={"K": SECRET}, replace=True)
        answer = gateway.load(wrong)
        assert (answer.status, answer.error_code()) == (400, "endpoint_denied")
        assert "HTTP 401" in answer.body.decode(), "what the server said"
        assert SECRET not in answer.body.decode()


def test_another_model_than_the_loaded_one_is_refused_with_openai_s_code(gateway: GatewayProcess) -> None:
    _load(gateway)
    answer = gateway.chat({**_request(), "model": "another"})
    assert (answer.status, answer.error_code()) == (404, "model_not_found")


def test_a_url_on_this_machine_must_be_allowed() -> None:
    with SimulatedProcess(Simulation()) as engine, GatewayProcess() as strict:
        request = LoadRequest(model="m", backend_class="openai", engine_params={"url": engine.url})
        answer = strict.load(request)
        assert answer.status == 400
        assert "embedded stack" in answer.body.decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_engine_ends_with_its_gateway(number: signal.Signals) -> None:
    with GatewayProcess() as process:
        pid = _load(process)["engine"]["pid"]
        watch = os.pidfd_open(pid)
        os.kill(process.pid, number)
        assert process.stop() in {0, -number}
        with open(watch, closefd=True) as handle:  # noqa: PTH123 -- a descriptor, no path
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            assert poll.poll(PATIENCE_S * 1000), "the engine lives on"


def test_the_real_engine_answers_in_the_schema_and_reads_an_image(gateway: GatewayProcess) -> None:
    files = {"weights": "tiny-doc-vlm-f16.gguf", "mmproj": "tiny-doc-vlm-mmproj-f16.gguf"}
    request = LoadRequest(
        model="tiny",
        backend_class="llamacpp",
        files={role: str(path(name)) for role, name in files.items()},
        engine_params={"n_ctx": 1024, "parallel": 2},
        replace=True,
    )
    status = gateway.load(request).json()
    engine = status["engine"]
    assert isinstance(engine, dict)
    assert engine["name"] == "llama.cpp"
    assert engine["version"] != "unknown"
    assert engine["weights_sha256"] == {role: sha256(name) for role, name in files.items()}
    assert engine["properties"]["/props"]["total_slots"] == 2
    schema: JsonValue = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}},
        "required": ["n"],
        "additionalProperties": False,
    }
    asked = _request("page.png", max_tokens=64, temperature=0)
    answer = gateway.chat(
        {**asked, "model": "tiny", "response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}
    )
    assert answer.status == 200, answer.body
    body: dict[str, Any] = answer.json()
    assert set(json.loads(body["choices"][0]["message"]["content"])) == {"n"}
    assert body["usage"]["prompt_tokens"] > 36
    assert body["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


@pytest.mark.parametrize(("arguments", "key", "status"), [((), "", 2), ((), "short", 2), (("--port", "taken"), KEY, 2)])
def test_the_error_of_a_gateway_that_cannot_start_has_the_reason(
    arguments: tuple[str, ...], key: str, status: int
) -> None:
    argv = [sys.executable, "-m", "vlmhyperbench_gateway", *arguments]
    ended = subprocess.run(
        argv, env={**os.environ, "VLMHB_GATEWAY_KEY": key}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == status
    assert ended.stderr


def test_a_port_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        argv = [sys.executable, "-m", "vlmhyperbench_gateway", "--port", str(taken.getsockname()[1])]
        environment = {**os.environ, "VLMHB_GATEWAY_KEY": KEY}
        ended = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 3
    assert "cannot listen" in ended.stderr


def test_many_streams_pass_concurrently(gateway: GatewayProcess) -> None:
    _load(gateway, tokens=8)

    async def ask() -> list[GatewayResponse]:
        return await asyncio.gather(*(asyncio.to_thread(gateway.chat, _request(stream=True)) for _ in range(2)))

    for _ in range(10):
        assert all(answer.events()[-1] == "[DONE]" for answer in asyncio.run(ask()))
