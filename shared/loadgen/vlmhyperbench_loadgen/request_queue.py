"""The requests of one phase in one measuring process: which request a stream takes next, and which are retried."""

from __future__ import annotations

import email.utils
import heapq
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence

from vlmhyperbench_loadgen.answers import ParsedAnswer
from vlmhyperbench_loadgen.table import Request
from vlmhyperbench_loadgen.tries import Try, read_try

TRANSIENT_CODES = frozenset({"connect_failed", "connection_lost", "timeout"})
TRANSIENT_STATUSES = frozenset({408, 425, 429})
FIRST_DELAY_S = 0.5
MAX_DELAY_S = 30.0
MAX_RETRY_AFTER_S = 60.0
MAX_BACKLOG_ANSWERS = 256
MAX_BACKLOG_BYTES = 16 * 1024 * 1024
"""Above either limit, finished answers are parsed at once, even if a request is sent later for that."""


class RequestQueue:
    """A phase's share of requests. Each is reported exactly once, unless the phase is cancelled.

    Args:
        requests: The requests in the order in which they are sent.
        tries: How often a request may be tried.
        seed: Of the delays before retries.
        report: Takes the last try of each request and its answer.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        *,
        tries: int = 1,
        seed: str = "",
        report: Callable[[Try, ParsedAnswer], None],
    ) -> None:
        self._shared: deque[Request] = deque()
        self._own: dict[int, deque[Request]] = {}
        for request in requests:
            queue = self._shared if request.stream < 0 else self._own.setdefault(request.stream, deque())
            queue.append(request)
        self._tries = tries
        self._rng = random.Random(seed)  # noqa: S311 - for delays, not for secrets
        self._report = report
        self._delayed: list[tuple[int, int, Request, int]] = []
        self._backlog: deque[Try] = deque()
        self._backlog_bytes = 0
        self._transient = TRANSIENT_CODES
        self.remaining = len(requests)
        """Number of requests that are not reported yet."""
        self.resent = 0
        """Number of requests sent again on a new connection, because the old one closed without a byte of an answer."""
        self.reopened = 0
        """Number of connections opened between two requests, because the server closed the one before."""
        self.streams = sys.maxsize
        """Streams from this index on take only requests that name them."""
        self.wake: Callable[[int], None] = lambda _now_ns: None
        """Called when a request will be retried, so that an idle stream can take it."""

    @property
    def has_backlog(self) -> bool:
        """Whether finished tries wait to be parsed."""
        return bool(self._backlog)

    @property
    def is_behind(self) -> bool:
        """Whether so many tries wait that parsing must not be deferred."""
        return len(self._backlog) > MAX_BACKLOG_ANSWERS or self._backlog_bytes > MAX_BACKLOG_BYTES

    def take(self, stream: int, now_ns: int) -> Try | int | None:
        """Give a free stream its next try, or the instant at which to ask again; None if no request is left for it.

        `scheduled_ns` of the try is 0 if the request is due at once.
        """
        if stream >= self.streams and not self._own.get(stream):
            if self._delayed:  # it may be this stream that waited for the retry
                self.wake(now_ns)
            return None
        if self._delayed and self._delayed[0][0] <= now_ns:
            due_ns, _, request, number = heapq.heappop(self._delayed)
            return Try(request=request, number=number, scheduled_ns=due_ns, stream=stream)
        queue = self._own.get(stream) or self._shared
        if queue:
            return Try(request=queue.popleft(), number=1, scheduled_ns=0, stream=stream)
        return self._delayed[0][0] if self._delayed else None

    def drain(self) -> None:
        """Drop the requests that no stream has taken; the others may be retried, but not after a time-out."""
        # Otherwise the caller would wait for one time-out after the other.
        self._transient -= {"timeout"}
        queues = (self._shared, *self._own.values())
        self.remaining -= sum(map(len, queues))
        for queue in queues:
            queue.clear()

    def finish(self, done: Try) -> int | None:
        """Take a finished try; return the instant until which its stream should wait, or None."""
        if done.number < self._tries and self._is_transient(done):
            return self._put_back(done)
        self._backlog.append(done)
        self._backlog_bytes += len(done.response.received)
        return None

    def read_next(self) -> None:
        """Parse the oldest finished answer and report it, or put its request back."""
        done = self._backlog.popleft()
        self._backlog_bytes -= len(done.response.received)
        answer = read_try(done)
        if answer.is_transient and done.number < self._tries:
            self.wake(self._put_back(done))
            return
        self.remaining -= 1
        self._report(done, answer)
        # The stream's next try refers to this one until its own answer is parsed.
        done.response.received.clear()

    def _put_back(self, done: Try) -> int:
        """Queue another try and return when it is due: after a uniform delay below a bound that doubles with each try.

        This scheme is known as full jitter. The delay is at least the server's Retry-After.
        """
        bound_s = min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** (done.number - 1))
        delay_s = max(self._rng.uniform(0.0, bound_s), _retry_after_s(done))
        due_ns = done.end_ns + round(delay_s * 1e9)
        heapq.heappush(self._delayed, (due_ns, done.request.ordinal, done.request, done.number + 1))
        return due_ns

    def _is_transient(self, done: Try) -> bool:
        if done.failure is not None:
            return done.failure.partition(":")[0] in self._transient
        status = done.http_status
        return status is not None and (status in TRANSIENT_STATUSES or status >= 500)


def _retry_after_s(done: Try) -> float:
    head = done.response.head
    value = head.headers.get(b"retry-after", b"").decode("latin-1") if head is not None else ""
    if value.isascii() and value.isdigit():
        return min(float(value[:9]), MAX_RETRY_AFTER_S)
    try:
        at_s = email.utils.parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(0.0, at_s - time.time()), MAX_RETRY_AFTER_S)
