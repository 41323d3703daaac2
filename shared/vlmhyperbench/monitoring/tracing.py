"""Spans of what a service does for a run, exported by OTLP. Nothing is imported or kept without an endpoint.

A span is a step of a job: a claim, a load, a phase of requests, a metric. There is no span for a single request, since
making one would cost time in the loop that is measured; the load generator has its own record of each.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from vlmhyperbench.extras import needed_for
from vlmhyperbench.monitoring.trace_context import Attributes, TraceContext

if TYPE_CHECKING:
    from vlmhyperbench.monitoring.otlp import Spans

_TRACES_PATH: Final = "/v1/traces"
_spans: Spans | None = None
_current: ContextVar[TraceContext | None] = ContextVar("span", default=None)


@contextmanager
def tracing(service: str, endpoint: str, *, version: str) -> Iterator[None]:
    """Export the spans of this process while the block runs; an empty endpoint exports none.

    Raises:
        Unavailable: OpenTelemetry's exporter is not installed.
    """
    global _spans
    if not endpoint:
        yield
        return
    with needed_for("Sending traces", extra="tracing"):
        from vlmhyperbench.monitoring.otlp import Spans

    url = endpoint if endpoint.rstrip("/").endswith(_TRACES_PATH) else endpoint.rstrip("/") + _TRACES_PATH
    _spans = Spans(service, url, version=version)
    try:
        yield
    finally:
        _spans.close()
        _spans = None


def is_tracing() -> bool:
    """Return whether spans are exported."""
    return _spans is not None


def current() -> TraceContext | None:
    """Return the span that this task is in."""
    return _current.get()


@contextmanager
def span(
    name: str, attributes: Attributes | None = None, *, parent: TraceContext | None = None, span_id: str | None = None
) -> Iterator[None]:
    """Make a span of the block, below `parent` or the span that the task is in; without either there is none.

    `span_id` is the id of a span that another process may have to end. An error that leaves the block is recorded by
    its class alone: its message may quote what a model or a server said.
    """
    above = parent or _current.get()
    if _spans is None or above is None or not above.is_sampled:
        yield
        return
    own = TraceContext(trace_id=above.trace_id, span_id=span_id or _spans.new_id(), parent_id=above.span_id)
    token, start_ns, error = _current.set(own), time.time_ns(), None
    try:
        yield
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        _current.reset(token)
        _spans.add(name, own, start_ns, time.time_ns(), attributes or {}, error)


def record(
    name: str,
    context: TraceContext,
    *,
    start_ns: int,
    end_ns: int | None = None,
    attributes: Attributes | None = None,
    error: str | None = None,
) -> None:
    """Export a span that is over, such as that of a run or of a claim whose worker was killed."""
    if _spans is not None and context.is_sampled:
        _spans.add(name, context, start_ns, end_ns or time.time_ns(), attributes or {}, error)


def record_below(
    parent: TraceContext | None, name: str, *, start_ns: int, attributes: Attributes | None = None
) -> None:
    """Export a span that ends now, below another one or the one that the task is in."""
    above = parent or _current.get()
    if _spans is not None and above is not None and above.is_sampled:
        context = TraceContext(trace_id=above.trace_id, span_id=_spans.new_id(), parent_id=above.span_id)
        _spans.add(name, context, start_ns, time.time_ns(), attributes or {}, None)
