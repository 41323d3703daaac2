"""Start the transformers engine as its adapter plans it, and ask it; the tests of `test_transformers.py` use this."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.loadgen_conformance.clients import PEERS
from tests.support.needs import skip_or_fail
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import EngineLaunch
from vlmhyperbench_transformers.adapter import Transformers

PYTHON = PEERS / "transformers" / "bin" / "python"
PATIENCE_S = 280
"""How long a test waits for what hangs; no verdict depends on how fast the machine is."""
WEIGHTS = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


def need_engine() -> None:
    """Skip a test where the engine is not installed; with `VLMHB_NEED_CLIENTS` that is a failure."""
    if not PYTHON.exists():
        skip_or_fail(f"transformers is not installed: there is no {PYTHON}; `make clients` installs it")


def load_request(folder: Path, **params: Any) -> LoadRequest:
    """Return the load of a model's folder, with every file that transformers reads."""
    names = (*WEIGHTS, "processor_config.json", "chat_template.jinja")
    files = {name: str(folder / name) for name in names if (folder / name).exists()}
    return LoadRequest(model="m", backend_class="transformers", files=files, engine_params={"threads": 1, **params})


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer of the server."""

    status: int
    body: bytes

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """The text of the first choice."""
        assert self.status == 200, self.body
        return str(self.json["choices"][0]["message"]["content"])

    @property
    def code(self) -> str:
        """The code of a refusal."""
        return str(self.json["error"]["code"])

    @property
    def chunks(self) -> list[Any]:
        """The events of a stream, which must end with [DONE]."""
        *events, last = [event.removeprefix("data: ") for event in self.body.decode().split("\n\n") if event]
        assert last == "[DONE]"
        return [json.loads(event) for event in events]


class RunningServer:
    """A started engine."""

    def __init__(self, port: int, process: subprocess.Popen[bytes]) -> None:
        self.port, self.process = port, process

    def call(self, method: str, path: str, body: bytes = b"") -> Reply:
        """Send a request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            return Reply(status=response.status, body=response.read())
        finally:
            connection.close()

    def chat(self, content: Any = "Hello", **fields: Any) -> Reply:
        """Ask greedily for a completion of one message."""
        messages = content if isinstance(content, list) and "role" in content[0] else [_user(content)]
        request = {"model": "m", "messages": messages, "temperature": 0, "max_tokens": 8, **fields}
        return self.call("POST", "/v1/chat/completions", json.dumps(request).encode())

    def ask_all(self, requests: Sequence[dict[str, Any]], parallel: int) -> list[str]:
        """Return the answers to requests, asked a number at a time."""
        with ThreadPoolExecutor(parallel) as pool:
            return list(pool.map(lambda request: self.chat(**_split(request)).text, requests))

    @contextmanager
    def open_stream(self, **fields: Any) -> Iterator[http.client.HTTPResponse]:
        """Yield a stream, which is left when the block ends."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        request = {"model": "m", "messages": [_user("Hello")], "temperature": 0, "stream": True, **fields}
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(request))
            yield connection.getresponse()
        finally:
            connection.close()


@contextmanager
def serve(folder: Path, **params: Any) -> Iterator[RunningServer]:
    """Run the server of a model until the block ends; SIGTERM must end it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    launch = Transformers().plan_engine(load_request(folder, **params), port=port, python=str(PYTHON))
    assert isinstance(launch, EngineLaunch)
    with subprocess.Popen(launch.argv, env={**os.environ, **launch.env}, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), f"the server ended with {process.wait(PATIENCE_S)}"
            yield RunningServer(port, process)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                status = process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        assert status == 0


def answers_of_generate(folder: Path, requests: Sequence[dict[str, Any]]) -> list[str]:
    """Return the answers of transformers' own `generate`, one request after another."""
    script = Path(__file__).with_name("generate.py")
    lines = "\n".join(map(json.dumps, requests))
    done = subprocess.run(
        [PYTHON, "-I", script, folder], input=lines, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def _user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _split(request: dict[str, Any]) -> dict[str, Any]:
    return {"content": request["messages"], **{name: value for name, value in request.items() if name != "messages"}}
