"""An HTTP server of a test that prints nothing about clients that have left."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar


class QuietServer(ThreadingHTTPServer):
    """A server whose clients may leave before their answer: what it printed then would be in another test's output."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Print every error but that of a connection that the client has closed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Recorder(BaseHTTPRequestHandler):
    """Answers a chat with how many messages it heard, and keeps them all."""

    heard: ClassVar[list[list[dict[str, object]]]] = []

    def do_GET(self) -> None:
        """Name the one model."""
        self._send(b'{"data": [{"id": "recorder"}]}', "application/json")

    def do_POST(self) -> None:
        """Answer as a stream of one piece."""
        messages = json.loads(self.rfile.read(int(self.headers["content-length"])))["messages"]
        self.heard.append(messages)
        delta = {"choices": [{"index": 0, "delta": {"content": f'heard "{len(messages)}"'}, "finish_reason": "stop"}]}
        said = f"data: {json.dumps(delta)}\n\ndata: [DONE]\n\n".encode()
        self._send(said, "text/event-stream")

    def _send(self, content: bytes, media_type: str) -> None:
        self.send_response(200)
        self.send_header("content-type", media_type)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve on a free port of loopback, and yield the URL."""
    server = QuietServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
