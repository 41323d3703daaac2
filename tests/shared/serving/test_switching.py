"""A model that is lost is loaded again for the next question; one that only failed once is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from threading import Thread

import pytest

from tests.support.http_servers import QuietServer
from vlmhyperbench.serving.plan import ServedModel
from vlmhyperbench.serving.switching import ModelSwitch, NotLoaded

pytestmark = pytest.mark.anyio


class Gateway:
    """A gateway that loads and unloads, and whose engine may end."""

    def __init__(self) -> None:
        self.state = "unloaded"
        self.calls: list[str] = []
        self.unload_status = 200
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer()

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                is_load = self.path.endswith("/load")
                gateway.state = "ready" if is_load else "unloaded"
                self.answer(200 if is_load else gateway.unload_status)

            def answer(self, status: int = 200) -> None:
                gateway.calls.append(self.path.rpartition("/")[2])
                body = json.dumps({"state": gateway.state}).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = QuietServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def model(self) -> ServedModel:
        return ServedModel(stage="s", name="m", url=f"http://127.0.0.1:{self.server.server_port}", load={"model": "m"})

    def end(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    started = Gateway()
    yield started
    started.end()


async def use(switch: ModelSwitch, model: ServedModel) -> None:
    async with switch.using(model):
        pass


@pytest.mark.parametrize(
    ("state", "calls"), [("ready", ["load", "status"]), ("error", ["load", "status", "status", "unload", "load"])]
)
async def test_a_doubted_model_is_loaded_again_unless_its_gateway_says_that_it_is_ready(
    gateway: Gateway, state: str, calls: list[str]
) -> None:
    switch = ModelSwitch("key", free=lambda: 0)
    await use(switch, gateway.model)
    gateway.state = state
    assert (await switch.why_lost(gateway.model) is None) == (state == "ready")
    await use(switch, gateway.model)
    await use(switch, gateway.model)
    assert gateway.calls == calls
    await switch.close()


async def test_no_model_is_loaded_beside_one_whose_unload_was_refused(gateway: Gateway) -> None:
    other = Gateway()
    switch = ModelSwitch("key", free=lambda: 0)
    await use(switch, gateway.model)
    gateway.unload_status = 503
    for _ in range(2):
        with pytest.raises(NotLoaded) as failed:
            await use(switch, other.model)
        assert gateway.model.name in str(failed.value)
    assert (gateway.calls, other.calls) == (["load", "unload", "unload"], [])
    gateway.unload_status = 200
    await use(switch, gateway.model)  # it is asked whether it is still there
    await use(switch, other.model)
    assert (gateway.calls[3:], other.calls) == (["status", "unload", "load", "unload"], ["load"])
    await switch.close()
    other.end()


async def test_the_next_model_is_loaded_once_the_memory_of_the_last_one_is_free(gateway: Gateway) -> None:
    other, seen = Gateway(), [20, 20, 60, 80]  # 60 of the 80 bytes that are held are 75 %
    states: list[tuple[str, list[str]]] = []

    def free() -> int:
        states.append((gateway.state, list(other.calls)))
        return seen.pop(0)

    switch = ModelSwitch("key", free=free)
    await use(switch, gateway.model.model_copy(update={"held_bytes": 80}))
    await use(switch, other.model)
    assert states == [("ready", []), ("unloaded", []), ("unloaded", []), ("unloaded", [])]
    assert other.calls == ["load"]
    await switch.close()
    other.end()


async def test_a_gateway_that_is_gone_is_named(gateway: Gateway) -> None:
    switch = ModelSwitch("key", free=lambda: 0)
    await use(switch, gateway.model)
    gateway.end()
    assert "does not answer" in (await switch.why_lost(gateway.model) or "")
    with pytest.raises(NotLoaded) as failed:
        await use(switch, gateway.model)
    assert gateway.model.name in str(failed.value)
    await switch.close()


async def test_a_model_that_an_earlier_process_left_loaded_is_unloaded_before_another_is_loaded(
    gateway: Gateway,
) -> None:
    other = Gateway()
    gateway.state = "ready"
    switch = ModelSwitch("key", [gateway.model, other.model], free=lambda: 0)
    await use(switch, other.model)
    await use(switch, other.model)
    assert (gateway.state, other.state) == ("unloaded", "ready")
    assert (gateway.calls, other.calls) == (["unload"], ["unload", "load"])
    await switch.close()
    other.end()
