"""Conversations: a turn is sent a think time after the answer to the turn before, and quotes the answers so far."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from vlmhyperbench_loadgen.answers import ParsedAnswer
from vlmhyperbench_loadgen.failures import PlanError
from vlmhyperbench_loadgen.request_queue import RequestQueue
from vlmhyperbench_loadgen.rows import status_of
from vlmhyperbench_loadgen.table import QuotePlace, Request, RequestKey
from vlmhyperbench_loadgen.tries import Try, read_try


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a conversation, and where its body quotes earlier answers."""

    request: Request
    places: tuple[QuotePlace, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """All turns of one conversation, in order."""

    number: int
    turns: tuple[Turn, ...]

    @property
    def stream(self) -> int:
        """The stream that drives it; -1: any."""
        return self.turns[0].request.stream


def make_conversations(
    requests: Sequence[Request],
    turns: Mapping[RequestKey, int],
    places: Mapping[RequestKey, Sequence[QuotePlace]],
) -> list[Conversation]:
    """Group the requests of one phase into conversations, in order of their first rows.

    Raises:
        PlanError: a request is no turn, a turn is missing, or a place quotes an answer that does not exist yet.
    """
    grouped: dict[int, list[Turn]] = {}
    for request in requests:
        key = (request.phase, request.ordinal)
        if key not in turns:
            raise PlanError(f"Request {request.ordinal} of phase {request.phase} belongs to no conversation.")
        grouped.setdefault(turns[key], []).append(Turn(request, tuple(places.get(key, ()))))
    return [_make(number, sorted(group, key=_turn_of)) for number, group in grouped.items()]


def _turn_of(turn: Turn) -> int:
    return turn.request.turn


def _make(number: int, turns: list[Turn]) -> Conversation:
    phase = turns[0].request.phase
    if [turn.request.turn for turn in turns] != list(range(len(turns))):
        raise PlanError(f"The turns of conversation {number} of phase {phase} do not count from 0 without a gap.")
    if len({turn.request.stream for turn in turns}) > 1:
        raise PlanError(f"The turns of conversation {number} of phase {phase} want different streams.")
    for turn in turns:
        at = 0
        for place in turn.places:
            if not (at < place.offset < turn.request.body_bytes and 0 <= place.answer_of < turn.request.turn):
                raise PlanError(
                    f"Turn {turn.request.turn} of conversation {number} of phase {phase} has a place that lies "
                    "outside its body, comes before another, or is for an answer that is not there yet."
                )
            at = place.offset
    return Conversation(number, tuple(turns))


def check_places(conversations: Sequence[Conversation], bodies: memoryview) -> None:
    """Check that every place lies inside an empty JSON string.

    Raises:
        PlanError: a place does not.
    """
    for conversation in conversations:
        for request, places in ((turn.request, turn.places) for turn in conversation.turns):
            for place in places:
                at = request.body_offset + place.offset
                if bytes(bodies[at - 1 : at + 1]) != b'""':
                    raise PlanError(
                        f"The body of request {request.ordinal} of phase {request.phase} has no empty string "
                        f"that ends at {place.offset}."
                    )


def build_body(body: memoryview, places: Sequence[QuotePlace], answers: Sequence[str]) -> memoryview:
    """Insert answers, escaped for JSON, at their places; `answers` is indexed by turn."""
    parts: list[bytes | memoryview] = []
    at = 0
    for place in places:
        parts += (body[at : place.offset], orjson.dumps(answers[place.answer_of])[1:-1])
        at = place.offset
    return memoryview(b"".join([*parts, body[at:]]))


@dataclass(slots=True)
class _Ongoing:
    """A conversation that a stream is driving."""

    conversation: Conversation
    answers: list[str] = field(default_factory=list)
    body: memoryview | None = None
    """The body of the next turn, where it quotes an answer."""
    build_ns: int | None = None


class ConversationQueue(RequestQueue):
    """A phase's share of conversations; each stream drives one at a time to its end, without retries."""

    def __init__(
        self,
        conversations: Sequence[Conversation],
        *,
        bodies: memoryview,
        report: Callable[[Try, ParsedAnswer], None],
    ) -> None:
        super().__init__((), tries=1, rng=random.Random(0), report=report)  # noqa: S311 - never drawn from
        self._bodies = bodies
        self._any_stream: deque[Conversation] = deque()
        self._of_stream: dict[int, deque[Conversation]] = {}
        for conversation in conversations:
            stream = conversation.stream
            queue = self._any_stream if stream < 0 else self._of_stream.setdefault(stream, deque())
            queue.append(conversation)
        self._ongoing: dict[int, _Ongoing] = {}
        """By stream."""
        self.remaining = sum(len(conversation.turns) for conversation in conversations)

    def take(self, stream: int, now_ns: int) -> Try | int | None:  # noqa: ARG002 - every turn is due when it is taken
        """Give a free stream the next turn of its conversation, else the first turn of another one."""
        ongoing = self._ongoing.get(stream)
        if ongoing is None:
            queue = self._of_stream.get(stream) or self._any_stream
            if not queue:
                return None
            ongoing = self._ongoing[stream] = _Ongoing(queue.popleft())
        turn = ongoing.conversation.turns[len(ongoing.answers)]
        return Try(
            request=turn.request,
            number=1,
            scheduled_ns=0,
            stream=stream,
            body=ongoing.body,
            conversation=ongoing.conversation.number,
            build_ns=ongoing.build_ns,
        )

    def finish(self, done: Try) -> int | None:
        """Take a finished turn; where others follow, parse its answer at once and build the next body."""
        ongoing = self._ongoing[done.stream]
        turns = ongoing.conversation.turns
        if done.request.turn == len(turns) - 1:
            del self._ongoing[done.stream]
            return super().finish(done)
        began_ns = time.monotonic_ns()
        answer = read_try(done)
        if answer.error is None:
            ongoing.answers.append(answer.text)
            following = turns[len(ongoing.answers)]
            ongoing.body = self._build(following, ongoing.answers)
            ongoing.build_ns = time.monotonic_ns() - began_ns
        self._report_turn(done, answer)
        if answer.error is not None:
            del self._ongoing[done.stream]
            self._skip(done, answer, ongoing)
        return None

    def _build(self, turn: Turn, answers: Sequence[str]) -> memoryview | None:
        request = turn.request
        if not turn.places:
            return None
        body = self._bodies[request.body_offset : request.body_offset + request.body_bytes]
        return build_body(body, turn.places, answers)

    def _skip(self, failed: Try, answer: ParsedAnswer, ongoing: _Ongoing) -> None:
        """Report the turns that are not sent after a failed one, as due when it failed."""
        how = status_of(answer)
        for turn in ongoing.conversation.turns[failed.request.turn + 1 :]:
            unsent = Try(
                request=turn.request,
                number=0,
                scheduled_ns=failed.end_ns,
                stream=failed.stream,
                conversation=ongoing.conversation.number,
            )
            why = f"conversation_ended: turn {failed.request.turn} came to {how}, so this one was never sent"
            self._report_turn(unsent, ParsedAnswer(error=why))

    def _report_turn(self, done: Try, answer: ParsedAnswer) -> None:
        self.remaining -= 1
        self._report(done, answer)
        done.response = None
