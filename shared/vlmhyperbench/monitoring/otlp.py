"""Spans on their way to a receiver: OpenTelemetry's exporter, in batches, from a thread. Imported only where used."""

from __future__ import annotations

import logging
import os
import secrets

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from vlmhyperbench.monitoring.trace_context import Attributes, TraceContext

_DELAY_MS = 2000
_TIMEOUT_S = 5
_CLOSE_MS = 3000
_SCOPE = InstrumentationScope("vlmhyperbench")


class Spans:
    """The exporter of a process. A receiver that is away costs spans, never a job: they wait in a bounded queue."""

    def __init__(self, service: str, url: str, *, version: str) -> None:
        # Each span that cannot be sent would be a line, for as long as the receiver is away.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._resource = Resource(
            {
                "service.name": f"vlmhyperbench-{service}",
                "service.version": version,
                "service.instance.id": f"{os.uname().nodename}-{os.getpid()}",
            }
        )
        self._processor = BatchSpanProcessor(
            OTLPSpanExporter(endpoint=url, timeout=_TIMEOUT_S), schedule_delay_millis=_DELAY_MS
        )

    @staticmethod
    def new_id() -> str:
        """Return the id of a new span."""
        return secrets.token_hex(8)

    def add(
        self, name: str, context: TraceContext, start_ns: int, end_ns: int, attributes: Attributes, error: str | None
    ) -> None:
        """Queue a span that is over."""
        span = ReadableSpan(
            name=name,
            context=_span_context(context.trace_id, context.span_id),
            parent=None if context.parent_id is None else _span_context(context.trace_id, context.parent_id),
            resource=self._resource,
            attributes=attributes,
            kind=SpanKind.INTERNAL,
            instrumentation_scope=_SCOPE,
            status=Status(StatusCode.UNSET if error is None else StatusCode.ERROR, error),
            start_time=start_ns,
            end_time=max(start_ns, end_ns),
        )
        self._processor.on_end(span)

    def close(self) -> None:
        """Send what is queued, for a moment at most."""
        self._processor.force_flush(_CLOSE_MS)
        self._processor.shutdown()  # type: ignore[no-untyped-call]  # the library gives it no types


def _span_context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
