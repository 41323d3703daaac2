"""Conversations: a turn is sent a think time after the answer to the turn before, and quotes the answers so far."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from vlmhyperbench_loadgen.answers import ParsedAnswer
from vlmhyperbench_loadgen.failures import PlanError
from vlmhyperbench_loadgen.request_queue import RequestQueue
from vlmhyperbench_loadgen.rows import status_of
from vlmhyperbench_loadgen.table import Quotation, Request, RequestKey
from vlmhyperbench_loadgen.tries import Try, read_try


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a conversation, and where its body quotes earlier answers."""

    request: Request
    quotations: tuple[Quotation, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """All turns of one conversation, in order."""

    number: int
    turns: tuple[Turn, ...]

    @property
    def stream(self) -> int:
        """Index of the stream that drives the conversation; -1: any stream."""
        return self.turns[0].request.stream


def make_conversations(
    requests: Sequence[Request],
    turns: Mapping[RequestKey, int],
    quotations: Mapping[RequestKey, Sequence[Quotation]],
) -> list[Conversation]:
    """Group the requests of one phase into conversations, in order of their first rows.

    Raises:
        PlanError: a request is no turn, a turn is missing, or a quotation is of an answer that does not exist yet.
    """
    grouped: dict[int, list[Turn]] = {}
    for request in requests:
        key = (request.phase, request.ordinal)
        if key not in turns:
            raise PlanError(f"turns.npy does not name request {request.ordinal} of phase {request.phase}.")
        grouped.setdefault(turns[key], []).append(Turn(request, tuple(quotations.get(key, ()))))
    return [_make(number, sorted(group, key=_turn_of)) for number, group in grouped.items()]


def _turn_of(turn: Turn) -> int:
    return turn.request.turn


def _make(number: int, turns: list[Turn]) -> Conversation:
    phase = turns[0].request.phase
    if [turn.request.turn for turn in turns] != list(range(len(turns))):
        raise PlanError(f"The turns of conversation {number} of phase {phase} are not numbered 0, 1, 2, ….")
    if len({turn.request.stream for turn in turns}) > 1:
        raise PlanError(f"The turns of conversation {number} of phase {phase} name different streams.")
    for turn in turns:
        previous_offset = 0
        for quotation in turn.quotations:
            location = f"places.npy: turn {turn.request.turn} of conversation {number} of phase {phase}"
            if not previous_offset < quotation.offset < turn.request.body_bytes:
                raise PlanError(
                    f"{location} quotes at offset {quotation.offset}, which lies outside its body of "
                    f"{turn.request.body_bytes} bytes or not after {previous_offset}."
                )
            if not 0 <= quotation.answer_of < turn.request.turn:
                raise PlanError(f"{location} quotes turn {quotation.answer_of}, which is no earlier turn.")
            previous_offset = quotation.offset
    return Conversation(number, tuple(turns))


def check_quotations(conversations: Sequence[Conversation], bodies: memoryview) -> None:
    """Check that every quotation lies inside an empty JSON string.

    Raises:
        PlanError: there is another byte at the offset of a quotation, or before it.
    """
    for conversation in conversations:
        for request, quotations in ((turn.request, turn.quotations) for turn in conversation.turns):
            for quotation in quotations:
                at = request.body_offset + quotation.offset
                if bytes(bodies[at - 1 : at + 1]) != b'""':
                    raise PlanError(
                        f"The body of request {request.ordinal} of phase {request.phase} has no empty string "
                        f"that ends at offset {quotation.offset}."
                    )


def build_body(body: memoryview, quotations: Sequence[Quotation], answers: Sequence[str]) -> memoryview:
    """Insert the quoted answers, escaped for JSON; `answers` is indexed by turn."""
    parts: list[bytes | memoryview] = []
    at = 0
    for quotation in quotations:
        parts += (body[at : quotation.offset], orjson.dumps(answers[quotation.answer_of])[1:-1])
        at = quotation.offset
    return memoryview(b"".join([*parts, body[at:]]))


@dataclass(slots=True)
class _Ongoing:
    """A conversation that a stream is driving."""

    conversation: Conversation
    answers: list[str] = field(default_factory=list)
    body: memoryview | None = None
    """The body of the next turn, if it quotes an answer."""
    build_ns: int | None = None


class ConversationQueue(RequestQueue):
    """A phase's share of conversations. Each stream drives one conversation at a time to its end, without retries."""

    def __init__(
        self,
        conversations: Sequence[Conversation],
        *,
        bodies: memoryview,
        report: Callable[[Try, ParsedAnswer], None],
    ) -> None:
        super().__init__((), report=report)
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
        """Give a free stream the next turn of its conversation, else the first turn of another conversation."""
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
        """Take a finished turn; if another turn follows, parse the answer at once and build the next body."""
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
        if not turn.quotations:
            return None
        body = self._bodies[request.body_offset : request.body_offset + request.body_bytes]
        return build_body(body, turn.quotations, answers)

    def _skip(self, failed: Try, answer: ParsedAnswer, ongoing: _Ongoing) -> None:
        """Report the turns after a failed turn, which are not sent; they are due at its end."""
        status = status_of(answer)
        for turn in ongoing.conversation.turns[failed.request.turn + 1 :]:
            unsent = Try(
                request=turn.request,
                number=0,
                scheduled_ns=failed.end_ns,
                stream=failed.stream,
                conversation=ongoing.conversation.number,
            )
            reason = f"conversation_ended: turn {failed.request.turn} ended with status {status}"
            self._report_turn(unsent, ParsedAnswer(error=f"{reason}, so this turn was not sent"))

    def _report_turn(self, done: Try, answer: ParsedAnswer) -> None:
        self.remaining -= 1
        self._report(done, answer)
        done.response.received.clear()
