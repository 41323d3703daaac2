"""Models of a pipeline as a test wants them: each says its text piece by piece, and keeps what it was asked."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.support.http_servers import QuietServer
from tests.support.processes import PATIENCE_S
from vlmhyperbench.domain.pipelines import PipelineTarget, asked_models
from vlmhyperbench.serving.plan import KEY_VARIABLE, ServedModel, ServingPlan

KEY = "the key of the members"


class Member:
    """A model at a URL of its own; `says` is its pieces, or the status with which it refuses."""

    def __init__(
        self,
        *says: str | int,
        ends: str = "stop",
        hangs: bool = False,
        is_silent: bool = False,
        meets: threading.Barrier | None = None,
    ) -> None:
        self.says = says
        self.ends = ends
        """Its finish reason."""
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.hangs = hangs
        """Whether it never ends its answer."""
        self.is_silent = is_silent
        """Whether it never begins one."""
        self.meets = meets
        """Where it waits for another one that is asked at the same time."""
        self.is_lost = ""
        """Why its gateway says that its engine has ended."""
        self.was_asked = threading.Event()
        self.was_left = threading.Event()
        """Set when a client has left in the middle."""

    @contextmanager
    def serving(self) -> Iterator[str]:
        member = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps({"state": "error", "error": member.is_lost} if member.is_lost else {"state": "ready"})
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def do_POST(self) -> None:
                member.keys.append(self.headers["authorization"])
                member.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                member.was_asked.set()
                if member.meets is not None:
                    member.meets.wait(PATIENCE_S)
                if member.is_silent:
                    self._wait()
                    return
                refused = next((status for status in member.says if isinstance(status, int)), None)
                self.send_response(refused or 200)
                self.send_header("content-type", "text/event-stream" if refused is None else "application/json")
                self.end_headers()
                if refused is not None:
                    self.wfile.write(json.dumps({"error": {"message": "it will not"}}).encode())
                    return
                for piece in member.says:
                    self._send({"choices": [{"index": 0, "delta": {"content": piece}}]})
                if member.hangs:
                    self._wait()
                    return
                self._send({"choices": [{"index": 0, "delta": {}, "finish_reason": member.ends}]})
                usage = {"prompt_tokens": 10, "completion_tokens": len(member.says)}
                self._send({"choices": [], "usage": usage})
                self.wfile.write(b"data: [DONE]\n\n")

            def _wait(self) -> None:
                self.connection.settimeout(PATIENCE_S)
                if _has_left(self.connection):
                    member.was_left.set()

            def _send(self, chunk: dict[str, Any]) -> None:
                self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

            def log_message(self, *_: object) -> None:
                pass

        server = QuietServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class Pipeline:
    """A served pipeline."""

    def __init__(self, url: str) -> None:
        self.url = url

    def post(self, **body: Any) -> tuple[int, str]:
        given = {"model": "p", "messages": [{"role": "user", "content": "Which?"}], **body}
        request = urllib.request.Request(f"{self.url}/v1/chat/completions", json.dumps(given).encode())
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def ask(self, **body: Any) -> dict[str, Any]:
        status, text = self.post(**body)
        answer: dict[str, Any] = json.loads(text)
        return {"status": status, **answer}

    def stream(self, **body: Any) -> list[dict[str, Any]]:
        """Return the events of a stream without its `[DONE]`."""
        _, text = self.post(stream=True, **body)
        events = [event.removeprefix("data: ") for event in text.split("\n\n") if event]
        return [json.loads(event) for event in events if event != "[DONE]"]


def target(*stages: Mapping[str, Any]) -> PipelineTarget:
    return PipelineTarget.model_validate({"pipeline": "p", "version": "1", "stages": stages})


def model(name: str, **changes: Any) -> dict[str, Any]:
    own = {"kind": "model", "model": name, "version": "1", "backend": "b", "backend_class": "simulated"}
    return {"name": name, "target": own, **changes}


def pieces(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the pieces of text of a stream."""
    deltas = [choice["delta"] for event in events for choice in event.get("choices", ())]
    return [delta["content"] for delta in deltas if delta.get("content")]


@contextmanager
def served(
    pipeline: PipelineTarget, folder: Path, members: Mapping[str, Member], own: Mapping[str, Any] | None = None
) -> Iterator[Pipeline]:
    """Serve a pipeline by a process of its own, which asks these members."""
    with ExitStack() as stack:
        urls = {name: stack.enter_context(member.serving()) for name, member in members.items()}
        models = {
            (asked.stage.id, asked.role == "member", asked.model.name): ServedModel(
                stage=asked.stage.id,
                merges=asked.role != "member",
                name=asked.model.name,
                url=urls[asked.model.name],
                own=(own or {}).get(asked.model.name, {}),
            )
            for asked in asked_models(pipeline)
            if asked.model.name in urls
        }
        plan = folder / "plan.json"
        plan.write_text(ServingPlan(target=pipeline, models=tuple(models.values())).model_dump_json())
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        argv = [sys.executable, "-m", "vlmhyperbench.serving", str(plan), "--port", str(port)]
        process = subprocess.Popen(argv, env={KEY_VARIABLE: KEY}, stderr=subprocess.PIPE)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_until_ready(url, process)
            yield Pipeline(url)
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE_S)


def _wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=PATIENCE_S):
                return
        except urllib.error.URLError:
            continue
    raise AssertionError(process.stderr.read().decode() if process.stderr else "it has ended")


def _has_left(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:  # closed with something unread
        return True
