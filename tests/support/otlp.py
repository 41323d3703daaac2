"""A receiver of traces: an HTTP server on loopback that decodes what exporters of OTLP send to it."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedSpan:
    """A span as it was sent, with the service that sent it."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    error: str
    start_ns: int
    end_ns: int
    attributes: dict[str, str]


@dataclass
class Receiver:
    """The spans that have arrived so far."""

    url: str = ""
    spans: list[ReceivedSpan] = field(default_factory=list)

    def trace(self, trace_id: str) -> list[ReceivedSpan]:
        """Return the spans of one trace."""
        return [span for span in list(self.spans) if span.trace_id == trace_id]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Receive while the block runs."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            receiver.spans.extend(_spans(ExportTraceServiceRequest.FromString(body)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()


def _spans(request: ExportTraceServiceRequest) -> Iterator[ReceivedSpan]:
    for resource in request.resource_spans:
        names = {item.key: item.value.string_value for item in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    service=names["service.name"],
                    name=span.name,
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    error=span.status.message,
                    start_ns=span.start_time_unix_nano,
                    end_ns=span.end_time_unix_nano,
                    attributes={item.key: str(item.value) for item in span.attributes},
                )
