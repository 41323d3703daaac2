"""The declared behaviour of a simulated engine: its timing, the shape of its streams and its failures."""

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

    Tokens in one event are sent at the instant of the first of them, and so are events in one write. A request arrives
    with its last byte; on a Unix socket, when that byte is read.
    """

    device_memory_gib: float = 0.0
    """Memory of devices that the engine stands for, by which its jobs are placed; it uses none of it."""
    tensor_parallel: int = 1
    """Number of devices over which that memory is spread."""
    ttft_ms: float = 0.0
    gap_ms: float = 0.0
    tokens: int = 16
    """Output tokens of an answer, unless the request's `max_tokens` is smaller (then `finish_reason` is `length`)."""
    context_tokens: int | None = None
    """Longest prompt that is answered; a longer one is refused with 400. None: every prompt is answered."""
    answer: str | None = None
    """A fixed answer, one token per word, in place of `tokens` drawn words."""
    words: Alphabet = "ascii"
    """The characters of drawn words: those of several bytes are sent as they are, not escaped."""
    reasoning_tokens: int = 0
    """Number of tokens, from the first on, that are reasoning."""
    reasoning_key: Literal["reasoning_content", "reasoning"] = "reasoning_content"
    tool_tokens: int = 0
    """Number of tokens, at the end, that are the arguments of a tool call."""
    tokens_per_event: int = 1
    events_per_write: int = 1
    """Number of events that are sent in one write of the socket."""
    split_ahead_ms: float = 0.0
    """The first part of every write of tokens is sent this long before its instant. The part ends inside an event, and
    inside a character if one has several bytes; the rest of the event is sent at its instant."""
    empty_deltas: bool = False
    """An event with empty content is sent in the middle of each wait for a token."""
    comments: bool = False
    """A keep-alive comment is sent in the middle of each wait for a token."""
    line_end: Literal["lf", "crlf"] = "lf"
    role_chunk: RoleChunk = "none"
    """A role-only event: none, in the write of the first token, or right after the headers."""
    tail_ms: float = 0.0
    """Time from the last token to usage and `[DONE]`."""
    usage: UsageChunk = "on_request"
    running_usage: bool = False
    """Every event with tokens states how many tokens were sent so far."""
    finish_chunk: Literal["own", "with_last"] = "own"
    """`finish_reason` and usage are in separate chunks after the last token, or in the chunk of the last token."""
    failure_rate: float = 0.0
    """Share of requests that fail, chosen by the hash of seed and body: a request fails always or never."""
    fail_every: int = 0
    """Every n-th request that arrives fails; 0: none."""
    failure: FailureKind = "status"
    """Kind of failure: an HTTP status, or a connection that closes before the answer or in the middle of it."""
    failure_status: int = 503
    recovers_after: int = 0
    """A request chosen by `failure_rate` succeeds after this many failed tries; 0: never."""
    start_ms: float = 0.0
    """Time from the start until the engine is ready; `/health` answers 503 before."""
    crash_at_start: bool = False
    """Exit with status 3 at the start."""
    model: str = "simulated"
    seed: int | None = None
    """A number: the same request always gets the same answer. None: every answer has different words."""
    record: bool = False
    """Record the true instants of every send for `GET /record`."""

    def __post_init__(self) -> None:
        for name in ("ttft_ms", "gap_ms", "tail_ms", "start_ms", "split_ahead_ms"):
            _check_range(name, getattr(self, name), 0, 3_600_000)
        for name in ("tokens", "tokens_per_event", "events_per_write"):
            _check_range(name, getattr(self, name), 1, _MAX_COUNT)
        _check_range("device_memory_gib", self.device_memory_gib, 0, 100_000)
        _check_range("tensor_parallel", self.tensor_parallel, 1, 64)
        for name in ("reasoning_tokens", "tool_tokens", "fail_every", "recovers_after"):
            _check_range(name, getattr(self, name), 0, _MAX_COUNT)
        if self.context_tokens is not None:
            _check_range("context_tokens", self.context_tokens, 1, _MAX_COUNT)
        _check_range("failure_rate", self.failure_rate, 0, 1)
        _check_range("failure_status", self.failure_status, 400, 599)


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InvalidInput(f"The simulated engine's {name} must lie between {low} and {high}, not {value}.")
