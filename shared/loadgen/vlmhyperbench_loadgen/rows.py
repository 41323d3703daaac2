"""Make the record's row of a finished request."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TypeAlias

from vlmhyperbench_loadgen.answers import TOKEN_KINDS, EventKind, ParsedAnswer
from vlmhyperbench_loadgen.table import Request
from vlmhyperbench_loadgen.tries import Try

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
    "conversation",
    "build_ns",
    "cached_tokens",
)
"""The names of `vlmhyperbench_sdk.load.RECORD_COLUMNS`, in order; a test compares both."""

Row: TypeAlias = list[int | str | bytes | None]
"""Values in the order of `COLUMNS`. The three lists of events are bytes: an int64, an int32 and one byte for each."""

KINDS: tuple[EventKind, ...] = ("content", "reasoning", "tool", "role", "usage")
"""Names of the codes in `event_kind`."""

_STATUSES = {"timeout": "timeout", "conversation_ended": "skipped"}
_CODES = {kind: code for code, kind in enumerate(KINDS)}
_TOKEN_CODES = len(TOKEN_KINDS)
"""Codes below this number are those of events with tokens."""


def make_row(done: Try, answer: ParsedAnswer, mask: Callable[[str], str]) -> Row:
    """Make the row of a request; `mask` hides secrets that a server may have echoed in its error."""
    request = done.request
    kinds = bytes([_CODES[kind] for kind in answer.event_kind])
    last = next((index for index in range(len(kinds) - 1, -1, -1) if kinds[index] < _TOKEN_CODES), None)
    status = status_of(answer)
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
        array("q", answer.event_ns).tobytes(),
        array("i", answer.event_tokens).tobytes(),
        kinds,
        answer.event_token_source,
        None if last is None else answer.event_ns[last],
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
        sha256_of(request),
        done.conversation,
        done.build_ns,
        answer.cached_tokens,
    ]


def sha256_of(request: Request) -> str:
    """Return the digest of a request's body."""
    return request.request_sha256.rstrip(b"\0").decode("ascii", "replace")


def status_of(answer: ParsedAnswer) -> str:
    """Return the status of a request."""
    if answer.error is None:
        return "ok"
    return _STATUSES.get(answer.error.partition(":")[0], "error")
