"""Read a stream of server-sent events while it passes: cut it into whole events, time it, add `performance` to it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from vlmhyperbench_gateway.adapters import write_json
from vlmhyperbench_sdk.types import JsonObject, JsonValue

TOKEN_KEYS = ("content", "reasoning_content", "reasoning", "tool_calls")
"""Fields of a delta that bear tokens if they are not empty."""

_DONE = b"[DONE]"


class EventSplitter:
    """Cuts bytes into whole events (each with its blank line); the part of one that has not ended waits."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the events that are whole by now."""
        data = self._rest + piece
        if b"\r" in data:
            held = b"\r" if data.endswith(b"\r") else b""
            data = data[: len(data) - len(held)].replace(b"\r\n", b"\n") + held
        *events, self._rest = data.split(b"\n\n")
        return [event + b"\n\n" for event in events]

    def end(self) -> bytes:
        """Return what was begun and never ended."""
        rest, self._rest = self._rest, b""
        return rest


def payload_of(event: bytes) -> bytes:
    """Return the data of an event; empty for a comment."""
    lines = (line for line in event.split(b"\n") if line.startswith(b"data:"))
    return b"\n".join(line[5:].strip() for line in lines)


def is_done(event: bytes) -> bool:
    """Say whether an event is the last one."""
    return payload_of(event) == _DONE


@dataclass(slots=True, kw_only=True)
class Meter:
    """The gateway's own times of one answer: diagnostics, never the measurement."""

    received_ns: int
    sent_ns: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    completion_tokens: int | None = None
    _head: dict[str, JsonValue] = field(default_factory=dict)

    def see(self, events: Iterable[bytes], now_ns: int) -> None:
        """Take note of events that arrived together."""
        for event in events:
            chunk = _parse(payload_of(event))
            if chunk is None:
                continue
            if not self._head:
                self._head = {name: chunk[name] for name in ("id", "created", "model") if name in chunk}
            if _bears_tokens(chunk):
                self.first_ns = self.first_ns or now_ns
                self.last_ns = now_ns
            self.note_usage(chunk)

    def note_usage(self, chunk: JsonObject) -> None:
        """Take the token count from an answer's usage."""
        usage = chunk.get("usage")
        count = usage.get("completion_tokens") if isinstance(usage, dict) else None
        if isinstance(count, int):
            self.completion_tokens = count

    def performance(self, now_ns: int, memory: JsonObject) -> dict[str, JsonValue]:
        """Write the block that goes with the answer; what is not known is null."""
        end_ns = self.last_ns or now_ns
        tpot_ms = None
        if self.first_ns is not None and self.last_ns is not None and (self.completion_tokens or 0) > 1:
            tpot_ms = (self.last_ns - self.first_ns) / 1e6 / ((self.completion_tokens or 0) - 1)
        return {
            "latency_ms": (end_ns - self.received_ns) / 1e6,
            "ttft_ms": (self.first_ns - self.received_ns) / 1e6 if self.first_ns is not None else None,
            "tpot_ms": tpot_ms,
            "queue_ms": (self.sent_ns - self.received_ns) / 1e6,
            **memory,
        }

    def performance_event(self, now_ns: int, memory: JsonObject) -> bytes:
        """Write the block as the chunk before `[DONE]`."""
        chunk: dict[str, JsonValue] = {
            **self._head,
            "object": "chat.completion.chunk",
            "choices": [],
            "performance": self.performance(now_ns, memory),
        }
        return b"data: " + write_json(chunk) + b"\n\n"


def _parse(payload: bytes) -> dict[str, JsonValue] | None:
    if not payload.startswith(b"{"):
        return None
    try:
        chunk = json.loads(payload)
    except ValueError:
        return None
    return chunk if isinstance(chunk, dict) else None


def _bears_tokens(chunk: JsonObject) -> bool:
    choices = chunk.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        delta = choice.get("delta") if isinstance(choice, dict) else None
        if isinstance(delta, dict) and any(delta.get(key) for key in TOKEN_KEYS):
            return True
    return False
