"""Serve the metrics of this process and its liveness over HTTP, from a thread: `/metrics` and `/healthz`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final

from vlmhyperbench.errors import Unavailable
from vlmhyperbench.monitoring.catalogue import METRICS, PLATFORM
from vlmhyperbench.monitoring.recording import is_recording, record_to

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
DEAD_S: Final = 60.0
"""Time without a beat of the event loop after which the process counts as dead."""
_BEAT_S: Final = 1.0
_CLIENT_S: Final = 5.0

_beaten_at: float | None = None


class PrometheusRecorder:
    """The metrics of one process as objects of the Prometheus client, made from the table."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Gauge, Histogram

        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        for metric in METRICS.values():
            if metric.source == PLATFORM:
                continue
            name, text, labels = metric.full_name, metric.text, metric.labels
            match metric.kind:
                case "counter":
                    self._counters[metric.name] = Counter(name, text, labels, registry=registry)
                case "gauge":
                    self._gauges[metric.name] = Gauge(name, text, labels, registry=registry)
                case "histogram":
                    self._histograms[metric.name] = Histogram(
                        name, text, labels, registry=registry, buckets=metric.buckets
                    )

    def count(self, name: str, amount: float, labels: dict[str, str]) -> None:
        counter = self._counters[name]
        (counter.labels(**labels) if labels else counter).inc(amount)

    def observe(self, name: str, seconds: float, labels: dict[str, str]) -> None:
        histogram = self._histograms[name]
        (histogram.labels(**labels) if labels else histogram).observe(seconds)

    def set(self, name: str, value: float, labels: dict[str, str]) -> None:
        gauge = self._gauges[name]
        (gauge.labels(**labels) if labels else gauge).set(value)


@contextmanager
def exporting(host: str, port: int) -> Iterator[None]:
    """Count and serve while the block runs; port 0 does neither.

    Raises:
        Unavailable: the port cannot be used.
    """
    if not port:
        yield
        return
    from prometheus_client import CollectorRegistry, ProcessCollector

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    try:
        server = _Server((host, port), _handler(registry))
    except OSError as error:
        raise Unavailable(
            f"Metrics cannot be served on {host}:{port}: {error.strerror or error}.",
            cure="Set VLMHB_METRICS_PORT to a free port; 0 serves none.",
            code="port_in_use",
        ) from error
    record_to(PrometheusRecorder(registry))
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        record_to(None)
        server.shutdown()
        server.server_close()


@asynccontextmanager
async def beating() -> AsyncIterator[None]:
    """Show while the block runs that the event loop turns; costs nothing where nothing is served."""
    if not is_recording():
        yield
        return
    task = asyncio.create_task(_beat())
    try:
        yield
    finally:
        task.cancel()


async def _beat() -> None:
    global _beaten_at
    while True:
        _beaten_at = time.monotonic()
        await asyncio.sleep(_BEAT_S)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # The port of a service that was killed is free at once for the next one; a second listener is refused.
    allow_reuse_address = True


def _handler(registry: CollectorRegistry) -> type[BaseHTTPRequestHandler]:
    from prometheus_client import generate_latest

    class Handler(BaseHTTPRequestHandler):
        timeout = _CLIENT_S

        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/metrics":
                    self._answer(200, generate_latest(registry), TEXT)
                case "/healthz":
                    is_alive = _beaten_at is None or time.monotonic() - _beaten_at < DEAD_S
                    text = b"ok\n" if is_alive else b"the event loop does not turn\n"
                    self._answer(200 if is_alive else 503, text, "text/plain; charset=utf-8")
                case _:
                    self._answer(404, b"/metrics and /healthz are served here\n", "text/plain; charset=utf-8")

        def _answer(self, status: int, body: bytes, media_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's signature
            """Write no line for each scrape."""

    return Handler
