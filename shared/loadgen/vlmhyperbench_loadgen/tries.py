"""One try of a request, and what it brought."""

from __future__ import annotations

from dataclasses import dataclass

from vlmhyperbench_loadgen.answers import Answer, read_refusal, read_stream, read_whole
from vlmhyperbench_loadgen.clocks import SHARED
from vlmhyperbench_loadgen.connection import Reply
from vlmhyperbench_loadgen.http1 import NotHttp
from vlmhyperbench_loadgen.table import Request
from vlmhyperbench_sdk.completions import BOM


@dataclass(slots=True)
class Try:
    """One try of one request, from the instant at which it was due until it ended."""

    request: Request
    number: int
    """1 for the first."""
    scheduled_ns: int
    stream: int
    sent_ns: int | None = None
    """When it left first, also where it was sent anew on another connection: whoever asked waits since then."""
    end_ns: int = 0
    reply: Reply | None = None
    failure: str | None = None
    """`code: message` where no whole answer came."""
    after: Try | None = None
    """The one whose end made this one due, until both are settled."""
    late_ns: int = 0
    """By so much the process saw the end later than the kernel."""
    body: memoryview | None = None
    """What is sent in place of the planned body."""
    conversation: int | None = None
    """Number of the conversation whose turn this is."""
    build_ns: int | None = None
    """What it took to read the answer before and to build this turn's body."""

    @property
    def http_status(self) -> int | None:
        """Status of the answer, where one began to come."""
        return self.reply.head.status if self.reply is not None and self.reply.head is not None else None


def settle_due(done: Try) -> None:
    """Let a try be due when the kernel had the end that made it due."""
    if done.after is not None:
        settle(done.after)
        done.scheduled_ns -= done.after.late_ns
        done.after = None


def settle(done: Try) -> None:
    """Put the kernel's instants in the place of this process's, also of the end that made the try due."""
    settle_due(done)
    reply = done.reply
    if reply is not None and reply.stamps:
        reply.settle(SHARED.after(done.end_ns))
        # What ends with the connection has no last read that is its end.
        ends_itself = reply.head is not None and reply.head.framing != "close"
        if reply.is_stamped and done.failure is None and ends_itself:
            done.late_ns, done.end_ns = done.end_ns - reply.times[-1], reply.times[-1]


def read_try(done: Try) -> Answer:
    """Read what a try brought, as far as it came; never raises for what a server sent."""
    settle(done)
    reply = done.reply
    head = reply.head if reply is not None else None
    if reply is None or head is None:
        return Answer(error=done.failure)
    try:
        body = reply.read_body()
        if not 200 <= head.status < 300:
            answer = Answer(error=read_refusal(head.status, body.payload))
        elif _is_stream(head.headers.get(b"content-type", b""), body.payload):
            answer = read_stream(body, reply.ends, reply.times, is_complete=done.failure is None)
        elif done.failure is None:
            answer = read_whole(body.payload, reply.times[-1])
        else:
            answer = Answer()
    except NotHttp as error:
        answer = Answer(error=f"bad_answer: its body is broken: {error}")
    answer.error = done.failure or answer.error
    return answer


def _is_stream(content_type: bytes, payload: bytes) -> bool:
    return content_type.lower().startswith(b"text/event-stream") or payload.removeprefix(BOM).startswith(b"data:")
