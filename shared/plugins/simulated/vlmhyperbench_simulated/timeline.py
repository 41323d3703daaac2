"""Schedule the events of a streamed answer: which bytes are sent together, and when; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple

from vlmhyperbench_simulated.frames import HEAD, LAST_CHUNK, EventKind, Frames, chunk, frames_of, split
from vlmhyperbench_simulated.simulation import Simulation


class Write(NamedTuple):
    """Bytes that are sent together."""

    offset_ns: int
    """Counted from the arrival of the request."""
    data: bytes
    events: tuple[tuple[EventKind, int], ...] = ()
    """Kind and number of tokens of each event whose last byte is in `data`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The tokens of an answer."""

    reasoning: list[str] = field(default_factory=list)
    content: list[str] = field(default_factory=list)
    tool: list[str] = field(default_factory=list)
    finish_reason: str = "stop"

    def __len__(self) -> int:
        return len(self.reasoning) + len(self.content) + len(self.tool)


class _Event(NamedTuple):
    """One event with tokens."""

    first: int
    """Index of its first token in the answer."""
    kind: EventKind
    text: str
    tokens: int
    is_first_call: bool


class _Timeline:
    """Writes in order; bytes that are due at the same instant are sent together."""

    def __init__(self) -> None:
        self.writes: list[Write] = []

    @property
    def at_ns(self) -> int:
        return self.writes[-1].offset_ns if self.writes else 0

    def add(self, offset_ns: int, data: bytes, events: tuple[tuple[EventKind, int], ...] = ()) -> None:
        writes = self.writes
        if writes and writes[-1].offset_ns >= offset_ns:
            last = writes[-1]
            writes[-1] = Write(last.offset_ns, last.data + data, last.events + events)
        else:
            writes.append(Write(offset_ns, data, events))


def lay_out(
    simulation: Simulation, tokens: Tokens, usage: dict[str, int], identity: str, *, says_usage: bool
) -> tuple[Write, ...]:
    """Plan the writes of a streamed answer, the first beginning with the status line."""
    frames = frames_of(simulation)
    start = frames.start(identity)
    ttft_ns = round(simulation.ttft_ms * 1e6)
    timeline = _Timeline()
    timeline.add(0, HEAD)
    if simulation.role_chunk == "at_headers":
        timeline.add(0, chunk(frames.role(start)), (("role", 0),))
    if simulation.role_chunk == "with_first":
        timeline.add(ttft_ns, chunk(frames.role(start)), (("role", 0),))
    if _is_plain(simulation):
        _add_plainly(simulation, tokens, timeline, frames, start)
    else:
        _add_events(simulation, tokens, timeline, frames, start, usage if says_usage else None)
    is_finished = simulation.finish_chunk == "with_last"
    if not is_finished:
        timeline.add(timeline.at_ns, chunk(frames.finish(start, tokens.finish_reason)))
    end_ns = _due_ns(simulation, len(tokens) - 1) + round(simulation.tail_ms * 1e6)
    if says_usage and not is_finished:
        timeline.add(end_ns, chunk(frames.usage(start, usage)), (("usage", 0),))
    timeline.add(end_ns, chunk(frames.done) + LAST_CHUNK)
    return tuple(timeline.writes)


def _due_ns(simulation: Simulation, token: int) -> int:
    """Return when a token is due, counted from the arrival of the request."""
    return round(simulation.ttft_ms * 1e6) + round(token * simulation.gap_ms * 1e6)


def _is_plain(simulation: Simulation) -> bool:
    """Return whether every token is sent in its own write, with nothing between two tokens."""
    return (
        simulation.tokens_per_event == simulation.events_per_write == 1
        and simulation.gap_ms > 0
        and simulation.finish_chunk == "own"
        and not simulation.tool_tokens
        and not simulation.split_ahead_ms
        and not (simulation.empty_deltas or simulation.comments or simulation.running_usage)
    )


@lru_cache(maxsize=64)
def _offsets(simulation: Simulation, tokens: int) -> tuple[int, ...]:
    return tuple(_due_ns(simulation, token) for token in range(tokens))


def _add_plainly(simulation: Simulation, tokens: Tokens, timeline: _Timeline, frames: Frames, start: bytes) -> None:
    """Do the same as `_add_events` for a plain simulation, but faster: tokens of other streams wait meanwhile."""
    parts: tuple[tuple[EventKind, list[str]], ...] = (("reasoning", tokens.reasoning), ("content", tokens.content))
    offsets = _offsets(simulation, len(tokens))
    at = 0
    for kind, texts in parts:
        chunks = frames.chunks(start, kind, texts)
        due = offsets[at : at + len(texts)]
        if texts and at == 0:
            # The head or the role may be due at the instant of the first token.
            timeline.add(due[0], chunks[0], ((kind, 1),))
            chunks, due = chunks[1:], due[1:]
        timeline.writes.extend(map(Write, due, chunks, repeat(((kind, 1),))))
        at += len(texts)


def _add_events(
    simulation: Simulation,
    tokens: Tokens,
    timeline: _Timeline,
    frames: Frames,
    start: bytes,
    usage: dict[str, int] | None,
) -> None:
    """Add the events with tokens, and comments and empty events between them; `usage`: None if no event states it."""
    events = _events(simulation, tokens)
    last = events[-1] if simulation.finish_chunk == "with_last" else None
    together = simulation.events_per_write
    for index in range(0, len(events), together):
        due_ns = _due_ns(simulation, events[index].first)
        _fill_wait(simulation, frames, start, timeline, due_ns)
        group = events[index : index + together]
        rendered = [
            _render(
                frames,
                start,
                event,
                usage if event is last or simulation.running_usage else None,
                tokens.finish_reason if event is last else None,
            )
            for event in group
        ]
        if simulation.split_ahead_ms:
            ahead, rendered[0] = split(rendered[0])
            timeline.add(max(timeline.at_ns, due_ns - round(simulation.split_ahead_ms * 1e6)), chunk(ahead))
        timeline.add(due_ns, b"".join(map(chunk, rendered)), tuple((event.kind, event.tokens) for event in group))


def _fill_wait(simulation: Simulation, frames: Frames, start: bytes, timeline: _Timeline, due_ns: int) -> None:
    """Add a comment or an empty event in the middle of the wait for the next tokens."""
    middle_ns = (timeline.at_ns + due_ns) // 2
    if simulation.comments:
        timeline.add(middle_ns, chunk(frames.comment))
    if simulation.empty_deltas:
        timeline.add(middle_ns, chunk(frames.empty(start)))


def _events(simulation: Simulation, tokens: Tokens) -> list[_Event]:
    events: list[_Event] = []
    first = 0
    parts: tuple[tuple[EventKind, Sequence[str]], ...] = (
        ("reasoning", tokens.reasoning),
        ("content", tokens.content),
        ("tool", tokens.tool),
    )
    size = simulation.tokens_per_event
    for kind, texts in parts:
        for at in range(0, len(texts), size):
            together = texts[at : at + size]
            text = together[0] if len(together) == 1 else "".join(together)
            events.append(_Event(first + at, kind, text, len(together), kind == "tool" and at == 0))
        first += len(texts)
    return events


def _render(
    frames: Frames,
    start: bytes,
    event: _Event,
    usage: dict[str, int] | None,
    reason: str | None,
) -> bytes:
    """Write one event; `usage` is of the whole answer, of which the event states the tokens so far."""
    if usage is None and reason is None:
        return frames.tokens(start, event.kind, event.text, is_first_call=event.is_first_call)
    if usage is not None:
        so_far = event.first + event.tokens
        usage = {**usage, "completion_tokens": so_far, "total_tokens": usage["prompt_tokens"] + so_far}
    return frames.last_tokens(
        start, event.kind, event.text, is_first_call=event.is_first_call, reason=reason, usage=usage
    )
