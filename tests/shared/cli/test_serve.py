"""`vlmhyperbench serve`: a model at an OpenAI-compatible URL without a stack; no process is left afterwards."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.processes import PATIENCE_S, wait_until_ended
from vlmhyperbench.cli.serve import serve
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench_tiny_doc_vlm import path

KEY = "a key of the user's own"
COMMAND = Path(sys.executable).with_name("vlmhyperbench")


class Serving:
    """A running `serve` and its JSON envelope."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        envelope = json.loads(process.stdout.readline())
        assert envelope["kind"] == "served"
        self.data: Mapping[str, Any] = envelope["data"]
        self.url = urlsplit(self.data["url"])

    def ask(self, method: str, path: str, key: str | None, body: object = None) -> tuple[int, dict[str, Any]]:
        connection = http.client.HTTPConnection(self.url.hostname or "", self.url.port or 0, timeout=PATIENCE_S)
        headers = {"authorization": f"Bearer {key}"} if key is not None else {}
        connection.request(method, f"{self.url.path}{path}", json.dumps(body) if body is not None else None, headers)
        response = connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
        connection.close()
        return response.status, answer

    def engine_pid(self, key: str) -> int:
        pid: int = self.ask("GET", "/model/status", key)[1]["engine"]["pid"]
        return pid


@contextmanager
def serving(home: Path, *arguments: str, command: tuple[str, ...] = ("serve",)) -> Iterator[Serving]:
    environment = {**os.environ, "VLMHB_HOME": str(home), "THE_KEY": KEY}
    process = subprocess.Popen(
        [str(COMMAND), *command, *arguments, "--json", "--quiet"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        yield Serving(process)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_registered_model_is_served_until_it_is_ended(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path, "simulated-instant") as served:
        key = served.data["key"]
        assert (served.data["model"], served.data["engine"]) == ("simulated-instant", "simulated")
        pids = served.data["pid"], served.engine_pid(key)
        assert served.ask("GET", "/models", None)[0] == served.ask("GET", "/models", "another")[0] == 401
        assert served.ask("GET", "/models/simulated-instant", key)[1]["id"] == "simulated-instant"
        status, refusal = served.ask("GET", "/models/Qwen/Qwen2.5-VL-7B-Instruct", key)
        assert (status, refusal["error"]["code"]) == (404, "model_not_found")
        body = {"model": "simulated-instant", "messages": [{"role": "user", "content": "?"}], "max_tokens": 3}
        assert served.ask("POST", "/chat/completions", key, body)[1]["usage"]["completion_tokens"] == 3
        served.process.send_signal(number)
        assert served.process.wait(PATIENCE_S) == 0
        wait_until_ended(*pids)


def test_a_gguf_file_is_served_by_its_path_with_the_users_own_key(tmp_path: Path) -> None:
    weights = path("tiny-doc-vlm-f16.gguf")
    arguments = (
        "--mmproj",
        str(path("tiny-doc-vlm-mmproj-f16.gguf")),
        *("--engine-param", "n_ctx=512", "--engine-param", "parallel=2"),
    )
    with serving(tmp_path, str(weights), *arguments, "--api-key-env", "THE_KEY") as served:
        assert (served.data["model"], served.data["backend"], served.data["key"]) == (weights.stem, "llamacpp", None)
        body = {"messages": [{"role": "user", "content": "?"}], "model": weights.stem, "max_tokens": 2, "n": 2}
        assert len(served.ask("POST", "/chat/completions", KEY, body)[1]["choices"]) == 2
        refused = served.ask("POST", "/chat/completions", KEY, {**body, "min_tokens": 2})
        assert (refused[0], refused[1]["error"]["code"]) == (400, "unsupported")
        assert "min_tokens" in refused[1]["error"]["message"]


def test_if_the_engine_dies_the_command_ends_with_its_signal(tmp_path: Path) -> None:
    with serving(tmp_path, "simulated-instant") as served:
        os.kill(served.engine_pid(served.data["key"]), signal.SIGKILL)
        out, complaint = served.process.communicate(timeout=PATIENCE_S)
        assert served.process.returncode == 3
        assert json.loads(out)["data"]["code"] == "engine_failed"
        assert "SIGKILL" in complaint
        wait_until_ended(served.data["pid"])


@pytest.mark.parametrize(
    ("model", "flags", "error", "named"),
    [
        ("simulated-instand", {}, InvalidInput, "simulated-instant"),
        ("nothing.gguf", {}, NotFound, "nothing.gguf"),
        ("nothing.gguf", {"backend": "openai"}, InvalidInput, "openai"),
        ("simulated-instant", {"mmproj": Path("x")}, InvalidInput, "--mmproj"),
        ("simulated-instant", {"engine_param": ("n_ctx",)}, InvalidInput, "n_ctx"),
        ("simulated-instant", {"backend": "llamacpp"}, InvalidInput, "llamacpp"),
        ("simulated-instant", {"api_key_env": "VLMHB_NO_SUCH_VARIABLE"}, InvalidInput, "VLMHB_NO_SUCH_VARIABLE"),
    ],
)
def test_a_model_that_cannot_be_served_is_refused_before_anything_starts(
    model: str, flags: dict[str, Any], error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named):
        serve(model, **flags)
