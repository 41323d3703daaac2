"""Conversations: a turn leaves when the answer to the one before is read and thought over, and quotes what was said."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from vlmhyperbench_loadgen.answers import Answer
from vlmhyperbench_loadgen.failures import PlanError
from vlmhyperbench_loadgen.rows import status_of
from vlmhyperbench_loadgen.table import Place, Request, RequestKey
from vlmhyperbench_loadgen.tries import Try, read_try
from vlmhyperbench_loadgen.work import Work


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a conversation, and where its body quotes earlier answers."""

    request: Request
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """All turns of one conversation, in order."""

    number: int
    turns: tuple[Turn, ...]

    @property
    def stream(self) -> int:
        """The stream that it wants; -1: any."""
        return self.turns[0].request.stream


def make_conversations(
    requests: Sequence[Request],
    turns: Mapping[RequestKey, int],
    places: Mapping[RequestKey, Sequence[Place]],
) -> list[Conversation]:
    """Put the requests of one phase together to conversations, in order of their first rows.

    Raises:
        PlanError: a request is no turn, a turn is missing, or a place quotes an answer that is not there by then.
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
    """See that every place lies inside an empty JSON string.

    Raises:
        PlanError: one does not.
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


def build_body(body: memoryview, places: Sequence[Place], answers: Sequence[str]) -> memoryview:
    """Put answers, escaped as JSON wants it, into their places; `answers` is by turn."""
    parts: list[bytes | memoryview] = []
    at = 0
    for place in places:
        parts += (body[at : place.offset], orjson.dumps(answers[place.answer_of])[1:-1])
        at = place.offset
    return memoryview(b"".join([*parts, body[at:]]))


@dataclass(slots=True)
class _Talk:
    """A conversation under way."""

    conversation: Conversation
    answers: list[str] = field(default_factory=list)
    body: memoryview | None = None
    """Of the next turn, where it quotes something."""
    build_ns: int | None = None


class ConversationWork(Work):
    """A phase's share of conversations; each stream drives one at a time to its end, and nothing is tried again."""

    def __init__(
        self,
        conversations: Sequence[Conversation],
        *,
        bodies: memoryview,
        report: Callable[[Try, Answer], None],
    ) -> None:
        super().__init__((), tries=1, rng=random.Random(0), report=report)  # noqa: S311 - never drawn from
        self._bodies = bodies
        self._any_stream: deque[Conversation] = deque()
        self._of_stream: dict[int, deque[Conversation]] = {}
        for one in conversations:
            queue = self._any_stream if one.stream < 0 else self._of_stream.setdefault(one.stream, deque())
            queue.append(one)
        self._talks: dict[int, _Talk] = {}
        """Stream → what it is busy with."""
        self.remaining = sum(len(one.turns) for one in conversations)

    def take(self, stream: int, now_ns: int) -> Try | int | None:  # noqa: ARG002 - every turn is due when it is taken
        """Give a free stream the next turn of its conversation, else the first one of another."""
        talk = self._talks.get(stream)
        if talk is None:
            queue = self._of_stream.get(stream) or self._any_stream
            if not queue:
                return None
            talk = self._talks[stream] = _Talk(queue.popleft())
        turn = talk.conversation.turns[len(talk.answers)]
        return Try(
            request=turn.request,
            number=1,
            scheduled_ns=0,
            stream=stream,
            body=talk.body,
            conversation=talk.conversation.number,
            build_ns=talk.build_ns,
        )

    def finish(self, done: Try) -> int | None:
        """Take an ended turn; where others follow, read its answer at once and build the next one's body."""
        talk = self._talks[done.stream]
        turns = talk.conversation.turns
        if done.request.turn == len(turns) - 1:
            del self._talks[done.stream]
            return super().finish(done)
        began_ns = time.monotonic_ns()
        answer = read_try(done)
        if answer.error is None:
            talk.answers.append(answer.text)
            following = turns[len(talk.answers)]
            talk.body = self._build(following, talk.answers)
            talk.build_ns = time.monotonic_ns() - began_ns
        self._report_one(done, answer)
        if answer.error is not None:
            del self._talks[done.stream]
            self._skip(done, answer, talk)
        return None

    def _build(self, turn: Turn, answers: Sequence[str]) -> memoryview | None:
        request = turn.request
        if not turn.places:
            return None
        body = self._bodies[request.body_offset : request.body_offset + request.body_bytes]
        return build_body(body, turn.places, answers)

    def _skip(self, failed: Try, answer: Answer, talk: _Talk) -> None:
        """Report the turns that a failed one leaves unsent, as due when it failed."""
        how = status_of(answer)
        for turn in talk.conversation.turns[failed.request.turn + 1 :]:
            unsent = Try(
                request=turn.request,
                number=0,
                scheduled_ns=failed.end_ns,
                stream=failed.stream,
                conversation=talk.conversation.number,
            )
            why = f"conversation_ended: turn {failed.request.turn} came to {how}, so this one was never sent"
            self._report_one(unsent, Answer(error=why))

    def _report_one(self, done: Try, answer: Answer) -> None:
        self.remaining -= 1
        self._report(done, answer)
        done.reply = None
