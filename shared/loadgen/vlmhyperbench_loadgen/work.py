"""The requests of one phase and of one measuring process: who takes which next, what is tried again, what is done."""

from __future__ import annotations

import email.utils
import heapq
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vlmhyperbench_loadgen.answers import Answer, read_refusal, read_stream, read_whole
from vlmhyperbench_loadgen.clocks import SHARED
from vlmhyperbench_loadgen.connection import Reply
from vlmhyperbench_loadgen.http1 import NotHttp
from vlmhyperbench_loadgen.table import Request

TRANSIENT_CODES = frozenset({"connect_failed", "connection_lost", "timeout"})
TRANSIENT_STATUSES = frozenset({408, 425, 429})
FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
LONGEST_RETRY_AFTER_S = 60.0
BACKLOG_ANSWERS = 256
BACKLOG_BYTES = 16 * 1024 * 1024
"""Above either, answers are read at once, even if that makes others wait."""


@dataclass(slots=True)
class Try:
    """One try of one request, from the instant at which it was due until it ended."""

    request: Request
    number: int
    """1 for the first."""
    scheduled_ns: int
    stream: int
    sent_ns: int | None = None
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


class Work:
    """A phase's share of requests. Every one of them is reported exactly once, unless the work is cancelled."""

    def __init__(
        self,
        requests: Sequence[Request],
        *,
        tries: int,
        rng: random.Random,
        report: Callable[[Try, Answer], None],
    ) -> None:
        self._shared: deque[Request] = deque()
        self._own: dict[int, deque[Request]] = {}
        for request in requests:
            queue = self._shared if request.stream < 0 else self._own.setdefault(request.stream, deque())
            queue.append(request)
        self._tries = tries
        self._rng = rng
        self._report = report
        self._delayed: list[tuple[int, int, Request, int]] = []
        self._backlog: deque[Try] = deque()
        self._backlog_bytes = 0
        self._transient = TRANSIENT_CODES
        self.remaining = len(requests)
        """Requests that are not reported yet."""
        self.wake: Callable[[int], None] = lambda now_ns: None  # noqa: ARG005
        """Called when a request is to be tried again, so that an idle stream may take it."""

    @property
    def has_backlog(self) -> bool:
        """Finished tries wait to be read."""
        return bool(self._backlog)

    @property
    def is_behind(self) -> bool:
        """So many wait that reading must not be put off any longer."""
        return len(self._backlog) > BACKLOG_ANSWERS or self._backlog_bytes > BACKLOG_BYTES

    def take(self, stream: int, now_ns: int) -> Try | int | None:
        """Give a free stream its next try, or when to ask again, or None.

        `scheduled_ns` of the try is 0 where the request is due at once.
        """
        if self._delayed and self._delayed[0][0] <= now_ns:
            due_ns, _, request, number = heapq.heappop(self._delayed)
            return Try(request=request, number=number, scheduled_ns=due_ns, stream=stream)
        queue = self._own.get(stream) or self._shared
        if queue:
            return Try(request=queue.popleft(), number=1, scheduled_ns=0, stream=stream)
        return self._delayed[0][0] if self._delayed else None

    def drain(self) -> None:
        """Give up what nobody has taken yet; what was tried is still tried to its end, or until a try hangs."""
        # Whoever waits for the end waits for one time-out at most, and not for one after the other.
        self._transient -= {"timeout"}
        queues = (self._shared, *self._own.values())
        self.remaining -= sum(map(len, queues))
        for queue in queues:
            queue.clear()

    def finish(self, done: Try) -> int | None:
        """Take an ended try; return until when its stream should hold back, or None."""
        if done.number < self._tries and self._is_transient(done):
            return self._put_back(done)
        self._backlog.append(done)
        self._backlog_bytes += len(done.reply.received) if done.reply is not None else 0
        return None

    def read_one(self) -> None:
        """Read the oldest finished answer and report it, or put its request back."""
        done = self._backlog.popleft()
        self._backlog_bytes -= len(done.reply.received) if done.reply is not None else 0
        answer = read_try(done)
        if answer.is_transient and done.number < self._tries:
            self.wake(self._put_back(done))
            return
        self.remaining -= 1
        self._report(done, answer)
        done.reply = None

    def _put_back(self, done: Try) -> int:
        """Full jitter: a uniform delay below a bound that doubles; never before the server's Retry-After."""
        bound_s = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** (done.number - 1))
        delay_s = max(self._rng.uniform(0.0, bound_s), _retry_after_s(done))
        due_ns = done.end_ns + round(delay_s * 1e9)
        heapq.heappush(self._delayed, (due_ns, done.request.ordinal, done.request, done.number + 1))
        return due_ns

    def _is_transient(self, done: Try) -> bool:
        if done.failure is not None:
            return done.failure.partition(":")[0] in self._transient
        status = done.http_status
        return status is not None and (status in TRANSIENT_STATUSES or status >= 500)


def settle(done: Try) -> None:
    """Put the kernel's instants in the place of this process's, also of the end that made the try due."""
    if done.after is not None:
        settle(done.after)
        done.scheduled_ns -= done.after.late_ns
        done.after = None
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
    return content_type.lower().startswith(b"text/event-stream") or payload.startswith(b"data:")


def _retry_after_s(done: Try) -> float:
    head = done.reply.head if done.reply is not None else None
    value = head.headers.get(b"retry-after", b"").decode("latin-1") if head is not None else ""
    if value.isascii() and value.isdigit():
        return min(float(value[:9]), LONGEST_RETRY_AFTER_S)
    try:
        at_s = email.utils.parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(0.0, at_s - time.time()), LONGEST_RETRY_AFTER_S)
