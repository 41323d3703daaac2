"""Forward a stream of server-sent events: split it into events, check and time them, and add `performance`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from vlmhyperbench.errors import VlmHyperBenchError
from vlmhyperbench.logs import process_masker
from vlmhyperbench_gateway.adapters import write_json
from vlmhyperbench_gateway.errors import EngineFailed, body_of
from vlmhyperbench_sdk.completions import BOM, CODE, BadAnswer, ChoiceStream, only_asked, parse_document, usage_counts
from vlmhyperbench_sdk.types import JsonObject, JsonValue

_DONE = b"[DONE]"


class EventSplitter:
    """Splits bytes into whole events, each with its blank line; the beginning of an event waits for its rest."""

    def __init__(self) -> None:
        self._rest = b""
        self._has_begun = False

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the events that this piece completes."""
        data = self._rest + piece
        if b"\r" in data:
            carriage_return = b"\r" if data.endswith(b"\r") else b""
            data = data[: len(data) - len(carriage_return)].replace(b"\r\n", b"\n") + carriage_return
        if not self._has_begun and len(data) >= len(BOM):
            self._has_begun = True
            data = data.removeprefix(BOM)
        *events, self._rest = data.split(b"\n\n")
        return [event + b"\n\n" for event in events]

    def end(self) -> bytes:
        """Return the event that was begun and not completed."""
        rest, self._rest = self._rest, b""
        return rest


def payload_of(event: bytes) -> bytes:
    """Return the data of an event; empty for a comment."""
    lines = (line for line in event.split(b"\n") if line.startswith(b"data:"))
    return b"\n".join(line[5:].strip() for line in lines)


@dataclass(slots=True, kw_only=True)
class Meter:
    """The gateway's own times of one answer: diagnostics, never the measurement."""

    received_ns: int
    sent_ns: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    completion_tokens: int | None = None
    _head: dict[str, JsonValue] = field(default_factory=dict)

    def see(self, chunk: JsonObject, now_ns: int, *, bears_tokens: bool) -> None:
        """Note an event that has arrived."""
        if not self._head:
            self._head = {name: chunk[name] for name in ("id", "created", "model") if name in chunk}
        if bears_tokens:
            self.first_ns = self.first_ns or now_ns
            self.last_ns = now_ns
        self.note_usage(chunk)

    def note_usage(self, chunk: JsonObject) -> None:
        """Take the token count from an answer's usage."""
        self.completion_tokens = usage_counts(chunk).get("completion_tokens", self.completion_tokens)

    def performance(self, now_ns: int, memory: JsonObject) -> dict[str, JsonValue]:
        """Return the block that goes with the answer; unknown values are null."""
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
        """Return the block as the chunk before `[DONE]`."""
        chunk: dict[str, JsonValue] = {
            **self._head,
            "object": "chat.completion.chunk",
            "choices": [],
            "performance": self.performance(now_ns, memory),
        }
        return b"data: " + write_json(chunk) + b"\n\n"


class Passage:
    """Passes only the requested choices of a stream on, by the rules of `completions` in the SDK."""

    def __init__(self, meter: Meter, *, asked: int, memory: Callable[[int], JsonObject]) -> None:
        """Begin a stream.

        Args:
            meter: Times the events that pass, and gives `performance` before `[DONE]`.
            asked: Number of requested choices.
            memory: Returns the memory block of a request that ends at an instant.
        """
        self._meter = meter
        self._memory = memory
        self._choices = ChoiceStream(asked)
        self.state: Literal["open", "done", "failed"] = "open"
        """Nothing passes after `[DONE]` or an error."""

    def take(self, events: Iterable[bytes], now_ns: int) -> bytes:
        """Return the bytes to pass on of whole events that arrived together."""
        passed: list[bytes] = []
        for event in events:
            if self.state != "open":
                break
            try:
                passed.append(self._check(event, now_ns))
            except BadAnswer as error:
                passed.append(self._fail(bad_answer(error)))
        return b"".join(passed)

    def end(self) -> bytes:
        """Return the bytes to send after the engine has ended its stream: an error if the answer is incomplete."""
        if self.state != "open":
            return b""
        if not self._choices.have_ended:
            return self._fail(
                EngineFailed("The engine ended its stream before the end of the answer.", code="incomplete_stream")
            )
        try:
            self._choices.check_end()
        except BadAnswer as error:
            return self._fail(bad_answer(error))
        return b""

    def _fail(self, error: EngineFailed) -> bytes:
        self.state = "failed"
        return error_event(error)

    def _check(self, event: bytes, now_ns: int) -> bytes:
        payload = payload_of(event)
        if not payload:
            return event
        if payload == _DONE:
            self._choices.check_end()
            self.state = "done"
            return self._meter.performance_event(now_ns, self._memory(now_ns)) + event
        chunk, is_exact = parse_document(payload)
        if chunk.get("error"):
            self.state = "failed"
            return process_masker.mask(event.decode("utf-8", "replace")).encode()
        parts = self._choices.take(chunk)
        self._meter.see(chunk, now_ns, bears_tokens=any(part.bears_tokens for part in parts.values()))
        passed = only_asked(chunk, parts)
        if is_exact and passed == chunk:
            return event
        return b"data: " + write_json(passed) + b"\n\n" if passed.get("choices") or passed.get("usage") else b""


def error_event(error: VlmHyperBenchError) -> bytes:
    """Return an error as the last event of a stream."""
    return b"data: " + write_json(body_of(error)) + b"\n\n"


def bad_answer(error: BadAnswer) -> EngineFailed:
    """Return the error of an answer that breaks the protocol."""
    return EngineFailed(f"The engine's answer breaks the protocol: {error}.", code=CODE)
