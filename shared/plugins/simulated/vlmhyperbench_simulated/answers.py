"""Plan the simulated engine's answer to a request, byte by byte and instant by instant; pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from vlmhyperbench_sdk.types import JsonObject
from vlmhyperbench_simulated.frames import EventKind
from vlmhyperbench_simulated.simulation import Simulation
from vlmhyperbench_simulated.timeline import Tokens, Write, lay_out
from vlmhyperbench_simulated.words import draw_words

_NOT_THE_WORDS = frozenset({"stream", "stream_options", "stop"})
"""Fields of a request that change how its answer is sent, or where it ends, but not its words."""
IMAGE_TOKENS = 64
"""Number of `prompt_tokens` of an image; those of a text are its words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAnswer:
    """An answer to send: `writes` in order of their offsets, of which the first begins with the status line."""

    status: int
    writes: tuple[Write, ...]
    closes: bool = False
    """The connection is closed after the last write."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    text: str = ""
    """The content of the answer."""


def request_digest(body: bytes, seed: int | None) -> bytes:
    """Hash a body and the seed; the hash decides whether a request fails and, with a seed, the words of its answer."""
    return hashlib.sha256((seed or 0).to_bytes(8, "big", signed=True) + body).digest()


def answer_digest(simulation: Simulation, request: JsonObject, digest: bytes, number: int) -> bytes:
    """Return the hash that decides the words of the `number`-th answer; without a seed it depends on the number too.

    With a seed, a stream and a whole answer have the same words, and a stop text changes none of those before it.
    """
    if simulation.seed is None:
        return hashlib.sha256(number.to_bytes(8, "big") + digest).digest()
    content = {name: value for name, value in request.items() if name not in _NOT_THE_WORDS}
    return request_digest(json.dumps(content, sort_keys=True).encode(), simulation.seed)


def is_chosen_to_fail(digest: bytes, rate: float) -> bool:
    """Decide by the hash whether a request belongs to the share that fails."""
    return int.from_bytes(digest[:8], "big") < rate * 2**64


def fail(simulation: Simulation, request: JsonObject, digest: bytes) -> PlannedAnswer:
    """Make the answer of a request that was chosen to fail."""
    if simulation.failure == "reset":
        return PlannedAnswer(status=0, writes=(), closes=True)
    if simulation.failure == "cut":
        whole = answer(simulation, request, digest)
        half = max(1, len(whole.writes) // 2)
        first_half = whole.writes[:half]
        if half == len(whole.writes):
            first_half = (
                Write(offset_ns=first_half[0].offset_ns, data=first_half[0].data[: len(first_half[0].data) // 2]),
            )
        return PlannedAnswer(status=200, writes=first_half, closes=True, prompt_tokens=whole.prompt_tokens)
    return refuse(simulation.failure_status, "A simulated failure.", code="simulated_failure")


def refuse(status: int, message: str, *, code: str) -> PlannedAnswer:
    """Make an error answer that is sent at once."""
    error = {"error": {"message": message, "type": "error", "code": code}}
    return PlannedAnswer(status=status, writes=(Write(offset_ns=0, data=respond(status, json.dumps(error).encode())),))


def respond(status: int, body: bytes, *, headers: str = "") -> bytes:
    """Write a whole HTTP answer with a JSON body."""
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


def answer(simulation: Simulation, request: JsonObject, digest: bytes) -> PlannedAnswer:
    """Make the answer of a chat request, streamed or whole."""
    prompt_tokens, context = _count_prompt(request), simulation.context_tokens
    if context is not None and prompt_tokens > context:
        message = f"The prompt has {prompt_tokens} tokens, and the context {context}."
        return refuse(400, message, code="context_length_exceeded")
    tokens = _tokens(simulation, request, digest)
    usage = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": len(tokens),
    }
    usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
    identity = f"chatcmpl-{digest.hex()[:24]}"
    if request.get("stream"):
        writes = lay_out(simulation, tokens, usage, identity, says_usage=_wants_usage(simulation, request))
    else:
        writes = (_whole(simulation, tokens, usage, identity),)
    return PlannedAnswer(
        status=200,
        writes=writes,
        prompt_tokens=usage["prompt_tokens"],
        completion_tokens=usage["completion_tokens"],
        text="".join(tokens.content),
    )


def _tokens(simulation: Simulation, request: JsonObject, digest: bytes) -> Tokens:
    cap = _count(request, "max_completion_tokens") or _count(request, "max_tokens")
    scripted = simulation.answer.split(" ") if simulation.answer is not None else None
    length = simulation.tokens if scripted is None else len(scripted)
    # `ignore_eos` makes an answer as long as its limit, `min_tokens` at least that long.
    ignores_end = cap > 0 and bool(request.get("ignore_eos"))
    wanted = cap if ignores_end else max(length, _count(request, "min_tokens"))
    is_cut = ignores_end or 0 < cap < wanted
    texts = _words(simulation, digest, min(wanted, cap or wanted), scripted or [])
    if not is_cut:
        texts[-1] = texts[-1].removesuffix(" ")
    stopped = _before_stop(texts, request)
    if stopped is not None:
        return Tokens(reasoning=[], content=stopped, tool=[], finish_reason="stop")
    content_start = min(simulation.reasoning_tokens, len(texts))
    tool_start = max(content_start, len(texts) - simulation.tool_tokens)
    finish_reason = "tool_calls" if tool_start < len(texts) else "stop"
    return Tokens(
        reasoning=texts[:content_start],
        content=texts[content_start:tool_start],
        tool=texts[tool_start:],
        finish_reason="length" if is_cut else finish_reason,
    )


def _before_stop(texts: Sequence[str], request: JsonObject) -> list[str] | None:
    """Return the tokens before the first stop text; None if there is none in the answer."""
    given = request.get("stop")
    stops = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    whole = "".join(texts)
    ends = [whole.find(stop) for stop in stops if isinstance(stop, str) and stop]
    end = min((end for end in ends if end >= 0), default=None)
    if end is None:
        return None
    kept: list[str] = []
    for text in texts:
        kept.append(text[:end])
        end -= len(text)
        if end <= 0:
            break
    return kept


def _words(simulation: Simulation, digest: bytes, count: int, scripted: Sequence[str]) -> list[str]:
    """Return `count` words, each followed by a space: the words of the script, then drawn words."""
    texts = [word + " " for word in scripted[:count]]
    return texts + draw_words(digest, count - len(texts), simulation.words)


def _count(request: JsonObject, name: str) -> int:
    """Return a field of the request that is a number of tokens; 0 if there is none."""
    value = request.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _whole(simulation: Simulation, tokens: Tokens, usage: dict[str, int], identity: str) -> Write:
    message: dict[str, object] = {"role": "assistant", "content": "".join(tokens.content)}
    if tokens.reasoning:
        message[simulation.reasoning_key] = "".join(tokens.reasoning)
    if tokens.tool:
        function = {"name": "answer", "arguments": "".join(tokens.tool)}
        message["tool_calls"] = [{"id": "call_0", "type": "function", "function": function}]
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
