"""The bodies and chunks of OpenAI's chat completions."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Logprobs = Sequence[Mapping[str, Any]]
"""An entry for each token: `token`, `logprob`, `bytes`, `top_logprobs`."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What one decoding step adds to a choice of an answer."""

    choice: int
    text: str = ""
    logprobs: Logprobs = ()
    finish: str | None = None
    """`stop` or `length` in the last piece."""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The numbers of tokens of a request; it follows the last piece."""

    prompt: int
    completion: int

    def body(self) -> dict[str, Any]:
        """Return OpenAI's `usage`; nothing is cached between requests."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": 0},
        }


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The identity of one answer, with which all its bodies begin."""

    model: str
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, pieces: Sequence[Piece], usage: Usage, *, with_logprobs: bool) -> bytes:
        """Return the body of an answer that is not streamed."""
        choices = []
        for index in sorted({piece.choice for piece in pieces}):
            own = [piece for piece in pieces if piece.choice == index]
            logprobs = [entry for piece in own for entry in piece.logprobs]
            choices.append(
                {
                    "index": index,
                    "message": {"role": "assistant", "content": "".join(piece.text for piece in own)},
                    "logprobs": {"content": logprobs} if with_logprobs else None,
                    "finish_reason": own[-1].finish,
                }
            )
        return _json({**self._head("chat.completion"), "choices": choices, "usage": usage.body()})

    def chunk(self, piece: Piece, *, is_first: bool, with_logprobs: bool) -> bytes:
        """Return the event of a piece; the first one of a choice has the role."""
        delta: dict[str, Any] = {"role": "assistant"} if is_first else {}
        if piece.text or is_first:
            delta["content"] = piece.text
        choice = {
            "index": piece.choice,
            "delta": delta,
            "logprobs": {"content": list(piece.logprobs)} if with_logprobs and piece.logprobs else None,
            "finish_reason": piece.finish,
        }
        return event({**self._head("chat.completion.chunk"), "choices": [choice]})

    def usage_chunk(self, usage: Usage) -> bytes:
        """Return the event that ends a stream with `include_usage`."""
        return event({**self._head("chat.completion.chunk"), "choices": [], "usage": usage.body()})

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


DONE = b"data: [DONE]\n\n"


def event(body: Mapping[str, Any]) -> bytes:
    """Return a server-sent event."""
    return b"data: " + _json(body) + b"\n\n"


def _json(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
