"""What a simulated engine declares about itself: its timing, the shape of its streams and its failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_simulated.words import Alphabet

RoleChunk = Literal["none", "with_first", "at_headers"]
UsageChunk = Literal["on_request", "always", "never"]
FailureKind = Literal["status", "reset", "cut"]

_MAX_COUNT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The truth that a client's measurement is compared with. Token *i* is sent `ttft_ms + i·gap_ms` after the request.

    Tokens that share an event leave with the first of them, events that share a write with the first of those. The
    request counts as arrived when its last byte was; on a Unix socket, when that was read.
    """

    ttft_ms: float = 0.0
    gap_ms: float = 0.0
    tokens: int = 16
    """Output tokens of an answer, unless the request's `max_tokens` is smaller (then `finish_reason` is `length`)."""
    answer: str | None = None
    """A fixed answer, one token per word, in place of `tokens` drawn words."""
    words: Alphabet = "ascii"
    """What drawn words are made of: characters of several bytes are sent as they are, not escaped."""
    reasoning_tokens: int = 0
    """How many of the answer's tokens, from the first on, are reasoning."""
    reasoning_key: Literal["reasoning_content", "reasoning"] = "reasoning_content"
    tool_tokens: int = 0
    """How many of the answer's tokens, up to the last, are the arguments of a tool call."""
    tokens_per_event: int = 1
    events_per_write: int = 1
    """Events that are sent in one write of the socket."""
    split_ahead_ms: float = 0.0
    """The first part of every write of tokens is sent this long before its instant. It ends inside an event, inside a
    character where one has several bytes; the event is complete with its last byte, at its instant."""
    empty_deltas: bool = False
    """An event with empty content lies in the middle of each wait for a token."""
    comments: bool = False
    """A keep-alive comment lies in the middle of each wait for a token."""
    line_end: Literal["lf", "crlf"] = "lf"
    role_chunk: RoleChunk = "none"
    """A role-only event: none, in the write of the first token, or right after the headers."""
    tail_ms: float = 0.0
    """From the last token to usage and `[DONE]`."""
    usage: UsageChunk = "on_request"
    running_usage: bool = False
    """Every event with tokens states how many there are so far."""
    finish_chunk: Literal["own", "with_last"] = "own"
    """Where `finish_reason` and usage are: in chunks of their own after the last token, or in the last token's."""
    failure_rate: float = 0.0
    """Share of requests that fail, chosen by the hash of seed and body: a request fails always or never."""
    fail_every: int = 0
    """Every n-th request to arrive fails; 0: none."""
    failure: FailureKind = "status"
    """How: an HTTP status, a connection closed before the answer, or in its middle."""
    failure_status: int = 503
    recovers_after: int = 0
    """A request chosen by `failure_rate` succeeds after this many failed tries; 0: never."""
    start_ms: float = 0.0
    """From start to ready; `/health` answers 503 before."""
    crash_at_start: bool = False
    """Exit with status 3 in place of getting ready."""
    model: str = "simulated"
    seed: int | None = None
    """A number: the same request always gets the same answer. None: the words of every answer are others."""
    record: bool = False
    """Keep the true instants of every send for `GET /record`."""

    def __post_init__(self) -> None:
        for name in ("ttft_ms", "gap_ms", "tail_ms", "start_ms", "split_ahead_ms"):
            _check_range(name, getattr(self, name), 0, 3_600_000)
        for name in ("tokens", "tokens_per_event", "events_per_write"):
            _check_range(name, getattr(self, name), 1, _MAX_COUNT)
        for name in ("reasoning_tokens", "tool_tokens", "fail_every", "recovers_after"):
            _check_range(name, getattr(self, name), 0, _MAX_COUNT)
        _check_range("failure_rate", self.failure_rate, 0, 1)
        _check_range("failure_status", self.failure_status, 400, 599)


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InvalidInput(f"The simulated engine's {name} must lie between {low} and {high}, not {value}.")
