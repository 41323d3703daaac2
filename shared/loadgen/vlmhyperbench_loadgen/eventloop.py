"""The event loop: wait for sockets, pipes and deadlines with epoll, a heap of deadlines and one absolute timer.

Deadlines are met within some tens of microseconds by `timerfd` (on Linux), within a millisecond elsewhere.
"""

from __future__ import annotations

import heapq
import select
import selectors
import sys
import time
from typing import TYPE_CHECKING, Protocol

from vlmhyperbench_loadgen.receiving import MAX_EVENTS, Receiver, WaitResult, make_receiver

if TYPE_CHECKING:
    from vlmhyperbench_sdk.timerfd import Timer

READ, WRITE = 1, 4
"""What to wait for, with the values of `EPOLLIN` and `EPOLLOUT`. Errors and hang-ups are reported as other bits."""

COALESCE_FROM_PER_S = 2500
MIN_COALESCE_NS, MAX_COALESCE_NS = 100_000, 700_000
"""From this rate of reads on, the loop sleeps before each poll, so that one wake-up serves several streams: the wake-up
is the largest part of the cost of a read. The sleep lies between these limits. The kernel stamps what it receives, so
an instant is wrong only if two events of a stream arrive during one sleep. A stream's next request may wait for it."""

MAX_SHARE_OF_ANSWER, MAX_SHARE_OF_GAP = 0.005, 0.1
"""Limits of the sleep: as a share of the mean duration of an answer, and of the mean time between two reads of a
connection. Both are measured over `_RATE_WINDOW_NS`."""

_RATE_WINDOW_NS = 10_000_000


def coalescing_ns(reads: int, sent: int, *, streams: int, span_ns: int) -> int:
    """Return how long to sleep before each poll, so that fewer wake-ups are needed; 0: do not sleep.

    Args:
        reads: Number of reads of all streams in the span.
        sent: Number of requests sent in the span.
        streams: Open connections.
        span_ns: Length of the span.
    """
    if reads * 1_000_000_000 < COALESCE_FROM_PER_S * span_ns:
        return 0
    stream_ns = streams * span_ns
    longest_ns = min(
        MAX_COALESCE_NS, MAX_SHARE_OF_GAP * stream_ns / reads, MAX_SHARE_OF_ANSWER * stream_ns / max(1, sent)
    )
    return int(longest_ns) if longest_ns >= MIN_COALESCE_NS else 0


class Watcher(Protocol):
    """Is called when its file descriptor is ready."""

    def ready(self, fd: int, mask: int) -> None: ...


class Sleeper(Protocol):
    """Is called when its deadline has passed."""

    deadline_ns: int
    """0: no deadline."""
    armed_ns: int
    """When the loop looks at the deadline next; set by the loop alone."""

    def due(self, now_ns: int) -> None: ...


class Poll(Protocol):
    """The part of `select.epoll` that the loop uses."""

    def register(self, fd: int, eventmask: int, /) -> object: ...
    def modify(self, fd: int, eventmask: int, /) -> object: ...
    def unregister(self, fd: int, /) -> object: ...
    def poll(self, timeout: float | None, maxevents: int, /) -> list[tuple[int, int]]: ...
    def close(self) -> None: ...


class EventLoop:
    """A poll with deadlines; everything runs in the caller's thread, inside `step`."""

    def __init__(self) -> None:
        self._poll: Poll = _SelectorPoll()
        self._timer: Timer | None = None
        self.receiver: Receiver | None = None
        """Reads the sockets that it is started for; their watchers are called only for what it does not handle."""
        if sys.platform == "linux":
            from vlmhyperbench_sdk.timerfd import Timer

            epoll = select.epoll()
            self._poll, self._timer, self.receiver = epoll, Timer(), make_receiver(epoll.fileno())
            epoll.register(self._timer.fd, READ)
        self._watchers: dict[int, Watcher] = {}
        self._heap: list[tuple[int, int, Sleeper]] = []
        self._count = 0
        self.coalesced_streams = 0
        """Number of streams whose reads may be coalesced, because the kernel stamps what they receive."""
        self.requests_sent = 0
        self.spin_ns = 0
        """Wake this long before a deadline and spin: wake-up latency varies."""
        self._coalesce_ns = 0
        self._reads = self._sent_before = 0
        self._window_began_ns = 0

    def watch(self, fd: int, mask: int, watcher: Watcher) -> None:
        """Call `watcher` when `fd` is ready."""
        self._poll.register(fd, mask)
        self._watchers[fd] = watcher

    def change(self, fd: int, mask: int, watcher: Watcher) -> None:
        """Wait for something else on a watched `fd`."""
        self._poll.modify(fd, mask)
        self._watchers[fd] = watcher

    def unwatch(self, fd: int) -> None:
        """Stop calling the watcher of `fd`. Call this before `fd` is closed."""
        if self.receiver is not None:
            self.receiver.release(fd)
        self._poll.unregister(fd)
        del self._watchers[fd]

    def wake_at(self, sleeper: Sleeper, deadline_ns: int) -> None:
        """Set the one deadline of `sleeper`; 0 removes it.

        A later deadline does not change the heap: when the earlier entry is due, `_wake_up` replaces it.
        """
        sleeper.deadline_ns = deadline_ns
        if deadline_ns and not 0 < sleeper.armed_ns <= deadline_ns:
            self._arm(sleeper)

    def _arm(self, sleeper: Sleeper) -> None:
        self._count += 1
        sleeper.armed_ns = sleeper.deadline_ns
        heapq.heappush(self._heap, (sleeper.deadline_ns, self._count, sleeper))

    def step(self, *, waits: bool, max_wait_s: float | None = None) -> bool:
        """Handle everything that is ready, first waiting for it if `waits`; return whether anything was ready."""
        heap = self._heap
        waited = self._wait(self._timeout(max_wait_s) if waits else 0.0, coalesce_ns=self._coalesce_ns if waits else 0)
        watchers = self._watchers
        # All watchers are looked up before the first is called: a descriptor that one closes may be reused by the next.
        for watcher, fd, mask in [(watchers.get(fd), fd, mask) for fd, mask in waited.events]:
            if watcher is not None:
                watcher.ready(fd, mask)
            elif self._timer is not None and fd == self._timer.fd:
                self._timer.acknowledge()
        if heap or self.coalesced_streams:
            now_ns = time.monotonic_ns()
            if heap and heap[0][0] <= now_ns + self.spin_ns:
                while now_ns < heap[0][0]:
                    now_ns = time.monotonic_ns()
                self._wake_up(now_ns)
            if self.coalesced_streams:
                self._reads += len(waited.events) + waited.reads
                if now_ns - self._window_began_ns >= _RATE_WINDOW_NS:
                    self._measure_rate(now_ns)
        return bool(waited.events) or waited.reads > 0

    def _wait(self, timeout_s: float | None, *, coalesce_ns: int) -> WaitResult:
        if self.receiver is None:
            if coalesce_ns:
                self._coalesce()
            return WaitResult(self._poll.poll(timeout_s, MAX_EVENTS), 0)
        deadline_ns = self._heap[0][0] if self._heap else 0
        return self.receiver.wait(timeout_s, coalesce_ns=coalesce_ns, deadline_ns=deadline_ns)

    def _measure_rate(self, now_ns: int) -> None:
        span_ns, sent = now_ns - self._window_began_ns, self.requests_sent - self._sent_before
        self._coalesce_ns = coalescing_ns(self._reads, sent, streams=self.coalesced_streams, span_ns=span_ns)
        self._reads, self._window_began_ns, self._sent_before = 0, now_ns, self.requests_sent

    def _coalesce(self) -> None:
        """Sleep so that several reads share one wake-up, but at most half of the time to the next deadline.

        epoll has no such delay: it returns at the first event. So this sleep is the purpose, not a wait for something.
        """
        left_ns = self._heap[0][0] - time.monotonic_ns() if self._heap else 2 * self._coalesce_ns
        if left_ns >= 2 * MIN_COALESCE_NS:
            time.sleep(min(self._coalesce_ns, left_ns // 2) / 1e9)

    def _timeout(self, max_wait_s: float | None) -> float | None:
        """Return the time-out of the next wait; with a timer, set that to the next deadline instead."""
        if not self._heap:
            return max_wait_s
        next_ns = self._heap[0][0]
        if self._timer is not None:
            if self._timer.armed_ns != next_ns - self.spin_ns:
                self._timer.arm(next_ns - self.spin_ns)
            return max_wait_s
        left_s = max(0.0, (next_ns - time.monotonic_ns()) / 1e9)
        return left_s if max_wait_s is None else min(left_s, max_wait_s)

    def _wake_up(self, now_ns: int) -> None:
        heap = self._heap
        while heap and heap[0][0] <= now_ns:
            armed_ns, _, sleeper = heapq.heappop(heap)
            if sleeper.armed_ns != armed_ns:
                continue
            sleeper.armed_ns = 0
            if 0 < sleeper.deadline_ns <= now_ns:
                sleeper.deadline_ns = 0
                sleeper.due(now_ns)
            elif sleeper.deadline_ns:
                self._arm(sleeper)

    def close(self) -> None:
        """Free the poll, its timer and its receiver."""
        if self.receiver is not None:
            self.receiver.close()
        self._poll.close()
        if self._timer is not None:
            self._timer.close()


class _SelectorPoll:
    """The interface of `select.epoll` for systems without it."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def register(self, fd: int, eventmask: int, /) -> None:
        self._selector.register(fd, self._translate(eventmask))

    def modify(self, fd: int, eventmask: int, /) -> None:
        self._selector.modify(fd, self._translate(eventmask))

    def unregister(self, fd: int, /) -> None:
        self._selector.unregister(fd)

    def poll(self, timeout: float | None, maxevents: int, /) -> list[tuple[int, int]]:
        ready = self._selector.select(timeout)[:maxevents]
        return [
            (key.fd, (READ if mask & selectors.EVENT_READ else 0) | (WRITE if mask & selectors.EVENT_WRITE else 0))
            for key, mask in ready
        ]

    def close(self) -> None:
        self._selector.close()

    @staticmethod
    def _translate(mask: int) -> int:
        return (selectors.EVENT_READ if mask & READ else 0) | (selectors.EVENT_WRITE if mask & WRITE else 0)
