"""An OpenAI-compatible endpoint that answers the rows of fixtures with the answers that are written beside them."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.benchmarks import IMAGE, Fixture
from tests.support.http_servers import QuietServer


@contextmanager
def replaying(fixtures: Sequence[Fixture]) -> Iterator[str]:
    """Serve on loopback, and yield the URL. A row is known by its image, or by its question where it has none."""
    answer_of: dict[bytes | str, str] = {}
    for read in fixtures:
        for row, image, answer in zip(read.rows, read.images, read.answers, strict=True):
            answer_of[image if IMAGE in row.values() else row.get("question") or row["prompt"]] = answer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send("application/json", json.dumps({"object": "list", "data": [{"id": "replay"}]}))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            frames = _frames(_answer(answer_of, body["messages"][-1]["content"]))
            self._send("text/event-stream", "".join(f"data: {frame}\n\n" for frame in frames))

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its name there
            """Print nothing."""

        def _send(self, kind: str, text: str) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

    server = QuietServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _answer(answer_of: Mapping[bytes | str, str], content: Any) -> str:
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    if urls:
        return answer_of[base64.b64decode(urls[0].partition(",")[2])]
    text = "".join(part["text"] for part in parts)
    (answer,) = [answer for asked, answer in answer_of.items() if isinstance(asked, str) and asked in text]
    return answer


def _frames(answer: str) -> list[str]:
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": {"role": "assistant", "content": answer}, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": "stop"},
    ]
    frames: list[dict[str, Any]] = [{"object": "chat.completion.chunk", "choices": [choice]} for choice in choices]
    usage = {"prompt_tokens": 1, "completion_tokens": len(answer.split()) or 1, "total_tokens": 2}
    return [*(json.dumps(frame) for frame in [*frames, {"choices": [], "usage": usage}]), "[DONE]"]
