"""Write the events of simulated streams as bytes, each in its own chunk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Literal

from vlmhyperbench_simulated.simulation import Simulation

EventKind = Literal["content", "reasoning", "tool", "role", "usage"]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
_NO_REASON = b', "finish_reason": null}]'


class Frames:
    """The events of one simulation's answers. Every method returns the event without its chunk's frame."""

    def __init__(self, simulation: Simulation) -> None:
        self._model = simulation.model
        self._end = b"\r\n\r\n" if simulation.line_end == "crlf" else b"\n\n"
        self._quote = encode_basestring if simulation.words == "multibyte" else encode_basestring_ascii
        self._reasoning = f'{{"{simulation.reasoning_key}": '.encode()

    @property
    def done(self) -> bytes:
        """The event that ends a stream."""
        return b"data: [DONE]" + self._end

    @property
    def comment(self) -> bytes:
        """A comment, which servers send so that an idle connection is not closed."""
        return b": keep-alive" + self._end

    def start(self, identity: str) -> bytes:
        """Write the beginning that all events of one answer share."""
        shell = {"id": identity, "object": "chat.completion.chunk", "created": 0, "model": self._model, "choices": []}
        return ("data: " + json.dumps(shell)[: -len("]}")]).encode()

    def tokens(self, start: bytes, kind: EventKind, text: str, *, is_first_call: bool = False) -> bytes:
        """Write an event with tokens."""
        return b"".join((start, self._delta(kind, text, is_first_call), _NO_REASON, b"}", self._end))

    def chunks(self, start: bytes, kind: EventKind, texts: Sequence[str]) -> list[bytes]:
        """Write an event for each text, framed as by `chunk`; fast, because tokens of other streams wait meanwhile."""
        before, _, after = self.tokens(start, kind, "").rpartition(b'""')
        size, quote = len(before) + len(after), self._quote
        quoted = [quote(text).encode("utf-8", "surrogatepass") for text in texts]
        return [b"%x\r\n%b%b%b\r\n" % (size + len(text), before, text, after) for text in quoted]

    def last_tokens(
        self,
        start: bytes,
        kind: EventKind,
        text: str,
        *,
        is_first_call: bool = False,
        reason: str | None = None,
        usage: dict[str, int] | None = None,
    ) -> bytes:
        """Write an event with tokens that also states why the answer ends, or how many tokens there are."""
        stated = f', "finish_reason": {json.dumps(reason)}}}]'.encode()
        counted = b"" if usage is None else f', "usage": {json.dumps(usage)}'.encode()
        return b"".join((start, self._delta(kind, text, is_first_call), stated, counted, b"}", self._end))

    def role(self, start: bytes) -> bytes:
        """Write an event with a role and empty content."""
        return start + b'{"index": 0, "delta": {"role": "assistant", "content": ""}' + _NO_REASON + b"}" + self._end

    def empty(self, start: bytes) -> bytes:
        """Write an event with empty content."""
        return start + b'{"index": 0, "delta": {"content": ""}' + _NO_REASON + b"}" + self._end

    def finish(self, start: bytes, reason: str) -> bytes:
        """Write the event with the finish reason."""
        return start + f'{{"index": 0, "delta": {{}}, "finish_reason": "{reason}"}}]}}'.encode() + self._end

    def usage(self, start: bytes, usage: dict[str, int]) -> bytes:
        """Write the event with the token counts."""
        return start + f'], "usage": {json.dumps(usage)}}}'.encode() + self._end

    def _delta(self, kind: EventKind, text: str, is_first_call: bool) -> bytes:
        quoted = self._quote(text).encode("utf-8", "surrogatepass")
        match kind:
            case "reasoning":
                delta = self._reasoning + quoted
            case "tool":
                named = b'"id": "call_0", "type": "function", ' if is_first_call else b""
                name = b'"name": "answer", ' if is_first_call else b""
                delta = b'{"tool_calls": [{"index": 0, %b"function": {%b"arguments": %b}}]' % (named, name, quoted)
            case _:
                delta = b'{"content": ' + quoted
        return b'{"index": 0, "delta": ' + delta + b"}"


@lru_cache(maxsize=16)
def frames_of(simulation: Simulation) -> Frames:
    """Return the frames of a simulation, cached."""
    return Frames(simulation)


def chunk(data: bytes) -> bytes:
    """Frame bytes as one chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def split(data: bytes) -> tuple[bytes, bytes]:
    """Split an event in two: inside its first character of several bytes, else in its middle."""
    middle = next((at + 1 for at, byte in enumerate(data) if byte >= 0x80), len(data) // 2)
    return data[:middle], data[middle:]
