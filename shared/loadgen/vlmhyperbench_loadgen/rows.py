"""Make the record's row of a finished request."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from vlmhyperbench_loadgen.answers import Answer
from vlmhyperbench_loadgen.work import Try

COLUMNS = (
    "phase",
    "ordinal",
    "sample",
    "repeat",
    "turn",
    "member",
    "stream",
    "scheduled_ns",
    "sent_ns",
    "event_ns",
    "event_tokens",
    "event_kind",
    "event_token_source",
    "last_event_ns",
    "stream_end_ns",
    "status",
    "http_status",
    "finish_reason",
    "error",
    "tries",
    "prompt_tokens",
    "completion_tokens",
    "token_source",
    "text",
    "reasoning",
    "request_sha256",
)
"""The names of `vlmhyperbench_sdk.load.RECORD_COLUMNS`, in order; a test compares the two."""

Row: TypeAlias = list[int | str | list[int] | list[str] | None]
"""Values in the order of `COLUMNS`."""


def make_row(done: Try, answer: Answer, mask: Callable[[str], str]) -> Row:
    """Lay out one request; `mask` hides secrets that a server may have echoed in its error."""
    request = done.request
    bearing = [
        at
        for at, kind in zip(answer.event_ns, answer.event_kind, strict=True)
        if kind in ("content", "reasoning", "tool")
    ]
    status = "ok"
    if answer.error is not None:
        status = "timeout" if answer.error.startswith("timeout:") else "error"
    is_counted = answer.prompt_tokens is not None or answer.completion_tokens is not None
    return [
        request.phase,
        request.ordinal,
        request.sample,
        request.repeat,
        request.turn,
        request.member,
        done.stream,
        done.scheduled_ns,
        done.sent_ns,
        answer.event_ns,
        answer.event_tokens,
        [str(kind) for kind in answer.event_kind],
        answer.event_token_source,
        bearing[-1] if bearing else None,
        done.end_ns if done.sent_ns is not None else None,
        status,
        done.http_status,
        answer.finish_reason,
        mask(answer.error) if answer.error is not None else None,
        done.number,
        answer.prompt_tokens,
        answer.completion_tokens,
        "usage" if is_counted else None,
        answer.text if status == "ok" or answer.text else None,
        answer.reasoning or None,
        request.request_sha256.rstrip(b"\0").decode("ascii", "replace"),
    ]
