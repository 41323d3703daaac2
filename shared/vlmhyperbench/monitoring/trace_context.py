"""Which trace a run belongs to: its own, whose id is the run's, or the one under which it was submitted (W3C).

Every span id that several processes must know is derived from an id in the database, so that nothing but the header
of the request that submitted a run has to be stored, and any process can end the span of one that was killed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

Attributes: TypeAlias = Mapping[str, str | int | float | bool]
"""What a span says of itself."""

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_MAX_LENGTH = 200

incoming: ContextVar[str | None] = ContextVar("traceparent", default=None)
"""The valid `traceparent` header of the request that this task answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContext:
    """A span as the parent of others."""

    trace_id: str
    span_id: str
    parent_id: str | None = None
    """The span's own parent, where it is known."""
    is_sampled: bool = True


def owner_context(owner_id: UUID, traceparent: str | None) -> TraceContext:
    """Return the span of a run or experiment, the parent of the spans of its jobs."""
    match = _match(traceparent)
    if match is None:
        return TraceContext(trace_id=owner_id.hex, span_id=span_id_of(owner_id))
    return TraceContext(
        trace_id=match[1], span_id=span_id_of(owner_id), parent_id=match[2], is_sampled=bool(int(match[3], 16) & 1)
    )


def span_id_of(row_id: UUID) -> str:
    """Return the id of the span of a run, an experiment or a claim: the random half of its own id."""
    return row_id.hex[16:]


def valid_traceparent(header: str | None) -> str | None:
    """Return a `traceparent` header if it is valid; a broken one is ignored, as the standard demands."""
    return header if _match(header) is not None else None


def _match(traceparent: str | None) -> re.Match[str] | None:
    if traceparent is None or len(traceparent) > _MAX_LENGTH:
        return None
    match = _TRACEPARENT.fullmatch(traceparent)
    # Version 00 has exactly four fields; a later one may have more.
    return None if match is None or (traceparent.startswith("00") and match[4]) else match
