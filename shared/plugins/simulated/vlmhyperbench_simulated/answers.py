"""What the simulated engine answers to a request, byte by byte and instant by instant; pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Literal

from vlmhyperbench_sdk.types import JsonObject
from vlmhyperbench_simulated.simulation import Simulation

_TEXT = (
    "amber basin cedar delta ember fable grove harbor iris juniper kernel lantern meadow nectar orbit pebble "
    "quartz raven saddle timber umbra velvet willow xenon yarrow zephyr acorn birch copper drift echo fern"
)
WORDS = tuple(_TEXT.split(" "))
"""What unscripted answers are made of."""

IMAGE_TOKENS = 64
"""What one image counts in `prompt_tokens`; text counts its words."""

EventKind = Literal["content", "reasoning", "role", "usage"]

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_DONE = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Bytes that leave together."""

    offset_ns: int
    """After the request's arrival."""
    data: bytes
    events: tuple[tuple[EventKind, int], ...] = ()
    """(kind, tokens in it) of each event in these bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer: `writes` in order of their offsets, the first beginning with the status line."""

    status: int
    writes: tuple[Write, ...]
    closes: bool = False
    """The connection is closed after the last write."""
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tokens:
    reasoning: list[str] = field(default_factory=list)
    content: list[str] = field(default_factory=list)
    finish_reason: str = "stop"

    def __len__(self) -> int:
        return len(self.reasoning) + len(self.content)


def request_digest(body: bytes, seed: int) -> bytes:
    """Hash what decides an answer: the body and the seed."""
    return hashlib.sha256(seed.to_bytes(8, "big", signed=True) + body).digest()


def is_chosen_to_fail(digest: bytes, rate: float) -> bool:
    """Decide by the hash whether a request belongs to the share that fails."""
    return int.from_bytes(digest[:8], "big") < rate * 2**64


def fail(simulation: Simulation, request: JsonObject, digest: bytes) -> Answer:
    """Make the answer of a request that was chosen to fail."""
    if simulation.failure == "reset":
        return Answer(status=0, writes=(), closes=True)
    if simulation.failure == "cut":
        whole = answer(simulation, request, digest)
        half = max(1, len(whole.writes) // 2)
        kept = whole.writes[:half]
        if half == len(whole.writes):
            kept = (Write(offset_ns=kept[0].offset_ns, data=kept[0].data[: len(kept[0].data) // 2]),)
        return Answer(status=200, writes=kept, closes=True, prompt_tokens=whole.prompt_tokens)
    return refuse(simulation.failure_status, "A simulated failure.", code="simulated_failure")


def refuse(status: int, message: str, *, code: str) -> Answer:
    """Make an error answer that leaves at once."""
    error = {"error": {"message": message, "type": "error", "code": code}}
    return Answer(status=status, writes=(Write(offset_ns=0, data=respond(status, json.dumps(error).encode())),))


def respond(status: int, body: bytes, *, headers: str = "") -> bytes:
    """Write a whole HTTP answer with a JSON body."""
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


def answer(simulation: Simulation, request: JsonObject, digest: bytes) -> Answer:
    """Make the answer of a chat request, streamed or whole."""
    tokens = _tokens(simulation, request, digest)
    usage = {
        "prompt_tokens": _count_prompt(request),
        "completion_tokens": len(tokens),
    }
    usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
    identity = f"chatcmpl-{digest.hex()[:24]}"
    if request.get("stream"):
        writes = _stream(simulation, tokens, usage if _wants_usage(simulation, request) else None, identity)
    else:
        writes = (_whole(simulation, tokens, usage, identity),)
    return Answer(
        status=200, writes=writes, prompt_tokens=usage["prompt_tokens"], completion_tokens=usage["completion_tokens"]
    )


def _tokens(simulation: Simulation, request: JsonObject, digest: bytes) -> _Tokens:
    if simulation.answer is None:
        texts = [WORDS[(digest[i % 32] + i) % len(WORDS)] + " " for i in range(simulation.tokens)]
        texts[-1] = texts[-1].rstrip()
    else:
        words = simulation.answer.split(" ")
        texts = [word + " " for word in words[:-1]] + [words[-1]]
    cap = request.get("max_completion_tokens") or request.get("max_tokens")
    is_cut = isinstance(cap, int) and cap < len(texts)
    if is_cut:
        texts = texts[: int(str(cap))]
    split = min(simulation.reasoning_tokens, len(texts))
    return _Tokens(reasoning=texts[:split], content=texts[split:], finish_reason="length" if is_cut else "stop")


class _Frames:
    """Writes the events of one answer; what they share is rendered once."""

    def __init__(self, identity: str, model: str) -> None:
        shell = {"id": identity, "object": "chat.completion.chunk", "created": 0, "model": model, "choices": []}
        self._start = "data: " + json.dumps(shell)[: -len("]}")]

    def delta(self, key: str, text: str, *, more: str = "") -> bytes:
        choice = f'{{"index": 0, "delta": {{{more}"{key}": {json.dumps(text)}}}, "finish_reason": null}}'
        return _chunk(f"{self._start}{choice}]}}\n\n".encode())

    def finish(self, reason: str) -> bytes:
        choice = f'{{"index": 0, "delta": {{}}, "finish_reason": "{reason}"}}'
        return _chunk(f"{self._start}{choice}]}}\n\n".encode())

    def usage(self, usage: dict[str, int]) -> bytes:
        return _chunk(f'{self._start}], "usage": {json.dumps(usage)}}}\n\n'.encode())


def _stream(simulation: Simulation, tokens: _Tokens, usage: dict[str, int] | None, identity: str) -> tuple[Write, ...]:
    ttft, gap = round(simulation.ttft_ms * 1e6), simulation.gap_ms * 1e6
    frames = _Frames(identity, simulation.model)
    role = frames.delta("content", "", more='"role": "assistant", ')
    end = ttft + round((len(tokens) - 1) * gap) + round(simulation.tail_ms * 1e6)

    timed = [Write(offset_ns=0, data=_HEAD)]
    if simulation.role_chunk == "at_headers":
        timed.append(Write(offset_ns=0, data=role, events=(("role", 0),)))
    if simulation.role_chunk == "with_first":
        timed.append(Write(offset_ns=ttft, data=role, events=(("role", 0),)))
    events = _token_events(simulation, tokens, frames)
    for start in range(0, len(events), simulation.events_per_write):
        together = events[start : start + simulation.events_per_write]
        timed.append(
            Write(
                offset_ns=ttft + round(together[0][0] * gap),
                data=b"".join(data for _, data, _, _ in together),
                events=tuple((kind, count) for _, _, kind, count in together),
            )
        )
    timed.append(Write(offset_ns=timed[-1].offset_ns, data=frames.finish(tokens.finish_reason)))
    if usage is not None:
        timed.append(Write(offset_ns=end, data=frames.usage(usage), events=(("usage", 0),)))
    timed.append(Write(offset_ns=end, data=_DONE))
    return _joined(timed)


def _joined(timed: list[Write]) -> tuple[Write, ...]:
    """Join what is due at the same instant, in order; at zero model time that is the whole answer."""
    return tuple(
        Write(
            offset_ns=offset_ns,
            data=b"".join(write.data for write in together),
            events=tuple(event for write in together for event in write.events),
        )
        for offset_ns, together in ((key, list(group)) for key, group in groupby(timed, attrgetter("offset_ns")))
    )


def _token_events(simulation: Simulation, tokens: _Tokens, frames: _Frames) -> list[tuple[int, bytes, EventKind, int]]:
    """(index of its first token, bytes, kind, tokens) of every token-bearing event."""
    events: list[tuple[int, bytes, EventKind, int]] = []
    first = 0
    parts: tuple[tuple[EventKind, str, list[str]], ...] = (
        ("reasoning", "reasoning_content", tokens.reasoning),
        ("content", "content", tokens.content),
    )
    for kind, key, texts in parts:
        for start in range(0, len(texts), simulation.tokens_per_event):
            together = texts[start : start + simulation.tokens_per_event]
            data = frames.delta(key, "".join(together))
            events.append((first + start, data, kind, len(together)))
        first += len(texts)
    return events


def _whole(simulation: Simulation, tokens: _Tokens, usage: dict[str, int], identity: str) -> Write:
    message = {"role": "assistant", "content": "".join(tokens.content)}
    if tokens.reasoning:
        message["reasoning_content"] = "".join(tokens.reasoning)
    body = {
        "id": identity,
        "object": "chat.completion",
        "created": 0,
        "model": simulation.model,
        "choices": [{"index": 0, "message": message, "finish_reason": tokens.finish_reason}],
        "usage": usage,
    }
    ready_ms = simulation.ttft_ms + (len(tokens) - 1) * simulation.gap_ms
    kinds: tuple[tuple[EventKind, int], ...] = (("content", len(tokens)),)
    return Write(offset_ns=round(ready_ms * 1e6), data=respond(200, json.dumps(body).encode()), events=kinds)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _wants_usage(simulation: Simulation, request: JsonObject) -> bool:
    if simulation.usage == "on_request":
        options = request.get("stream_options")
        return isinstance(options, dict) and bool(options.get("include_usage"))
    return simulation.usage == "always"


def _count_prompt(request: JsonObject) -> int:
    count = 0
    messages = request.get("messages")
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        for part in parts:
            if isinstance(part, dict):
                text = part.get("text")
                count += len(text.split()) if isinstance(text, str) else 0
                count += IMAGE_TOKENS if part.get("type") == "image_url" else 0
    return count
