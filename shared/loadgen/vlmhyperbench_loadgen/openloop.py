"""An open loop: every request is sent at its scheduled instant, independent of the requests before it.

If no stream is free, another stream is opened, up to a limit. At the limit a request is sent as soon as a stream is
free, and its times still count from the instant at which it was scheduled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from vlmhyperbench_loadgen.answers import ParsedAnswer
from vlmhyperbench_loadgen.eventloop import EventLoop
from vlmhyperbench_loadgen.request_queue import RequestQueue
from vlmhyperbench_loadgen.streams import Stream
from vlmhyperbench_loadgen.table import Request
from vlmhyperbench_loadgen.tries import Try

SPIN_NS = 80_000
"""How long a wake-up by a timer takes on an idle machine; the loop spins for this long before an instant."""

NEAR_NS = 200_000
"""Parsing an answer, or sending rows to the parent, takes less than this."""

MAX_SPIN_SHARE = 0.05
"""Maximum share of a core that spinning may take."""


class ScheduledQueue(RequestQueue):
    """A phase's share of requests, each with its instant and without retries."""

    def __init__(
        self,
        requests: Sequence[Request],
        instants_ns: Sequence[int],
        *,
        report: Callable[[Try, ParsedAnswer], None],
    ) -> None:
        super().__init__((), report=report)
        self._requests = requests
        self._instants_ns = instants_ns
        self.start_ns = 0
        """Start of the phase, from which the instants count."""
        self._next = 0
        self.spin_ns = spin_for(instants_ns)
        self.idle: list[int] = []
        """Indexes of the streams without a request; the stream that became free last is at the end."""
        self.is_waiting = False
        """Whether a request is due and waits for a stream."""
        self.resumed: Callable[[], None] = lambda: None
        """Called when the last waiting request has got a stream."""
        self.remaining = len(requests)

    @property
    def next_ns(self) -> int | None:
        """When the next request is due; None after the last request."""
        return self.start_ns + self._instants_ns[self._next] if self._next < len(self._instants_ns) else None

    def take(self, stream: int, now_ns: int) -> Try | int | None:
        """Give a free stream the next request if it is due; else note that the stream is idle."""
        due_ns = self.next_ns
        if due_ns is None or due_ns > now_ns:
            self.idle.append(stream)
            return None
        request = self._requests[self._next]
        self._next += 1
        if self.is_waiting and ((after_ns := self.next_ns) is None or after_ns > now_ns):
            self.is_waiting = False
            self.resumed()
        return Try(request=request, number=1, scheduled_ns=due_ns, stream=stream)


def spin_for(instants_ns: Sequence[int]) -> int:
    """Return how long an open loop spins before each instant; 0 where that exceeds `MAX_SPIN_SHARE`."""
    span_ns = instants_ns[-1] - instants_ns[0] if instants_ns else 0
    return SPIN_NS if 0 < SPIN_NS * len(instants_ns) <= MAX_SPIN_SHARE * span_ns else 0


class Departures:
    """Wakes a stream for each request at its instant."""

    def __init__(
        self, queue: ScheduledQueue, streams: list[Stream], *, loop: EventLoop, grow: Callable[[], Stream | None]
    ) -> None:
        self.deadline_ns = 0
        self.armed_ns = 0
        self._queue = queue
        self._streams = {stream.index: stream for stream in streams}
        self._loop = loop
        self._grow = grow
        """Returns another stream, which is idle; None at the limit of streams."""
        self.grown = 0
        """Number of streams that were added."""
        self.spin_ns = queue.spin_ns
        queue.resumed = self._wait_for_next

    def start(self) -> None:
        """Wait for the first instant."""
        self._queue.idle[:] = list(self._streams)
        self._wait_for_next()

    def are_near(self) -> bool:
        """Return whether a request is due so soon that no other work should begin."""
        due_ns = self._queue.next_ns
        return due_ns is not None and due_ns - time.monotonic_ns() < NEAR_NS

    def stop(self) -> None:
        """Stop waking streams."""
        self._loop.wake_at(self, 0)

    def due(self, now_ns: int) -> None:
        """Send every request that is due; a request without a stream is sent when a stream is free."""
        queue = self._queue
        while (due_ns := queue.next_ns) is not None and due_ns <= now_ns:
            if not queue.idle and not self._add_stream():
                queue.is_waiting = True
                return
            self._streams[queue.idle.pop()].wake(now_ns)
            now_ns = time.monotonic_ns()
        self._wait_for_next()

    def _add_stream(self) -> bool:
        """Let another stream take part; return False at the limit of streams."""
        stream = self._grow()
        if stream is None:
            return False
        stream.join(self._queue)
        self._streams[stream.index] = stream
        self._queue.idle.append(stream.index)
        self.grown += 1
        return True

    def _wait_for_next(self) -> None:
        self._loop.wake_at(self, self._queue.next_ns or 0)
