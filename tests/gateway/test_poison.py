"""What is no answer passes the gateway as an error, whatever a client makes of it: the table of poison, asked of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from tests.support.http_servers import QuietServer
from tests.support.poison import STREAMS, WHOLE, Outcome, Poison
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.testing.gateways import GatewayProcess, GatewayResponse
from vlmhyperbench_sdk.types import JsonValue


class _Engine(BaseHTTPRequestHandler):
    """Answers with what `next` holds."""

    next = b""
    media_type = ""

    def do_GET(self) -> None:
        self._answer(b'{"data": []}', "application/json")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._answer(type(self).next, type(self).media_type)

    def _answer(self, body: bytes, media_type: str) -> None:
        self.send_response(200)
        self.send_header("content-type", media_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayProcess]:
    with QuietServer(("127.0.0.1", 0), _Engine) as server, GatewayProcess("--allow-loopback") as process:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        params: dict[str, JsonValue] = {"url": f"http://127.0.0.1:{server.server_port}"}
        assert process.load(LoadRequest(model="m", backend_class="openai", engine_params=params)).status == 200
        yield process
        server.shutdown()


def _ask(gateway: GatewayProcess, poison: Poison, *, stream: bool) -> GatewayResponse:
    _Engine.next, _Engine.media_type = poison.data, "text/event-stream" if stream else "application/json"
    return gateway.chat({"model": "m", "messages": [{"role": "user", "content": "?"}], "stream": stream})


@pytest.mark.parametrize("poison", WHOLE.values(), ids=WHOLE)
def test_a_whole_answer_passes_by_the_rules(gateway: GatewayProcess, poison: Poison) -> None:
    answer = _ask(gateway, poison, stream=False)
    if poison.outcome.error is not None:
        assert (answer.status, answer.error_code()) == (
            502,
            "engine_error" if poison.outcome.error == "stream_error" else poison.outcome.error,
        )
        return
    assert answer.status == 200, answer.body
    body = answer.json()
    assert _read_carelessly([body], "message") == poison.outcome


@pytest.mark.parametrize("poison", STREAMS.values(), ids=STREAMS)
def test_a_stream_passes_by_the_rules(gateway: GatewayProcess, poison: Poison) -> None:
    answer = _ask(gateway, poison, stream=True)
    events = [json.loads(event) for event in answer.events() if event != "[DONE]"]
    stated = [event["error"] for event in events if event.get("error")]
    if poison.outcome.error is not None:
        assert len(stated) == 1
        assert events[-1] == {"error": stated[0]}
        assert "[DONE]" not in answer.events()
        assert poison.outcome.error == stated[0].get("code", "stream_error")
        return
    assert not stated
    assert _read_carelessly(events, "delta") == poison.outcome


def _read_carelessly(documents: list[dict[str, JsonValue]], part: str) -> Outcome:
    """Read as a client does that trusts its server: joins every choice's text, takes the last usage as it is."""
    text, usage = "", {}
    for document in documents:
        for choice in document.get("choices") or ():
            message = choice.get(part) or {"content": choice.get("text")}
            text += message.get("content") or message.get("refusal") or ""
        usage = document.get("usage") if isinstance(document.get("usage"), dict) else usage
    return Outcome(
        text=text, prompt_tokens=usage.get("prompt_tokens"), completion_tokens=usage.get("completion_tokens")
    )
