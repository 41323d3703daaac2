"""Wait for sockets, pipes and instants in one place: epoll, a heap of deadlines and one absolute timer.

Instants are exact to some tens of microseconds with `timerfd`; without it (not Linux) to a millisecond.
"""

from __future__ import annotations

import heapq
import select
import selectors
import sys
import time
from typing import TYPE_CHECKING, Protocol

from vlmhyperbench_loadgen.receiving import MOST_EVENTS, Receiver, Waited, make_receiver

if TYPE_CHECKING:
    from vlmhyperbench_loadgen.relaying import Relay
    from vlmhyperbench_sdk.timerfd import Timer

READ, WRITE = 1, 4
"""What to wait for; the values are those of `EPOLLIN` and `EPOLLOUT`. Errors and hang-ups come as other bits."""

GATHER_FROM_PER_S = 2500
LEAST_GATHER_NS, MOST_GATHER_NS = 100_000, 700_000
"""Where much comes, so long is waited before looking again, so that one wake-up serves several: waking is most of the
cost. Sockets that the kernel stamps lose nothing by it, unless two reads' worth of one stream come closer than this,
or a stream's next request waits for it: in a closed loop no more than 1 ms may be the client's."""

SHARE_OF_ANSWER, SHARE_OF_GAP = 0.005, 0.1
"""It is waited no longer than these shares of a mean answer, and of the mean time between two reads of a connection, by
what the last `_RATE_WINDOW_NS` were like."""

_RATE_WINDOW_NS = 10_000_000


def gathering_ns(events: int, begun: int, *, streams: int, span_ns: int) -> int:
    """Say how long to wait for company so that it saves wake-ups and costs streams next to nothing; 0 is not at all.

    Args:
        events: Reads of all streams.
        begun: Requests that were sent.
        streams: Connections that are open.
        span_ns: In this time.
    """
    if events * 1_000_000_000 < GATHER_FROM_PER_S * span_ns:
        return 0
    stream_ns = streams * span_ns
    longest_ns = min(MOST_GATHER_NS, SHARE_OF_GAP * stream_ns / events, SHARE_OF_ANSWER * stream_ns / max(1, begun))
    return int(longest_ns) if longest_ns >= LEAST_GATHER_NS else 0


class Watcher(Protocol):
    """Something that is told when its file descriptor is ready."""

    def ready(self, fd: int, mask: int) -> None: ...


class Sleeper(Protocol):
    """Something that is told when its deadline has passed. `armed_ns` belongs to the loop."""

    deadline_ns: int
    """0: none."""
    armed_ns: int

    def due(self, now_ns: int) -> None: ...


class Poll(Protocol):
    """The part of `select.epoll` that is used."""

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
        """Hears the sockets it is told to listen to; their watchers are told once there is something to look at."""
        if sys.platform == "linux":
            from vlmhyperbench_sdk.timerfd import Timer

            epoll = select.epoll()
            self._poll, self._timer, self.receiver = epoll, Timer(), make_receiver(epoll.fileno())
            epoll.register(self._timer.fd, READ)
        self.relay: Relay | None = None
        """Is given what the receiver has relayed."""
        self._watchers: dict[int, Watcher] = {}
        self._heap: list[tuple[int, int, Sleeper]] = []
        self._count = 0
        self.gathers_for = 0
        """For so many streams waiting for company is allowed: what they read bears instants of its own."""
        self.begun = 0
        """Requests sent."""
        self.lead_ns = 0
        """By so much the timer goes off ahead of a deadline; what is left is waited for awake. Waking up takes long,
        and never equally long."""
        self._gather_ns = 0
        self._events = self._begun_before = 0
        self._events_since_ns = 0

    def watch(self, fd: int, mask: int, watcher: Watcher) -> None:
        """Tell `watcher` when `fd` is ready."""
        self._poll.register(fd, mask)
        self._watchers[fd] = watcher

    def change(self, fd: int, mask: int, watcher: Watcher) -> None:
        """Wait for something else on a watched `fd`."""
        self._poll.modify(fd, mask)
        self._watchers[fd] = watcher

    def unwatch(self, fd: int) -> None:
        """Forget `fd`; must come before it is closed."""
        if self.receiver is not None:
            self.receiver.forget(fd)
        self._poll.unregister(fd)
        del self._watchers[fd]

    def wake_at(self, sleeper: Sleeper, deadline_ns: int) -> None:
        """Set (or move) the one deadline of `sleeper`; 0 takes it away.

        Moving it back costs nothing: an entry that comes up too early is put back then.
        """
        sleeper.deadline_ns = deadline_ns
        if deadline_ns and not 0 < sleeper.armed_ns <= deadline_ns:
            self._arm(sleeper)

    def _arm(self, sleeper: Sleeper) -> None:
        self._count += 1
        sleeper.armed_ns = sleeper.deadline_ns
        heapq.heappush(self._heap, (sleeper.deadline_ns, self._count, sleeper))

    def step(self, *, waits: bool, at_most_s: float | None = None) -> bool:
        """Handle whatever is ready, having waited for it if told to; say whether anything was."""
        heap = self._heap
        waited = self._wait(self._timeout(at_most_s) if waits else 0.0, gather_ns=self._gather_ns if waits else 0)
        ready = waited.ready
        watchers = self._watchers
        # Looked up before anybody is told: a descriptor that one of them closes may be another's at once.
        for watcher, fd, mask in [(watchers.get(fd), fd, mask) for fd, mask in ready]:
            if watcher is not None:
                watcher.ready(fd, mask)
            elif self._timer is not None and fd == self._timer.fd:
                self._timer.acknowledge()
        if heap or self.gathers_for:
            now_ns = time.monotonic_ns()
            if heap and heap[0][0] <= now_ns + self.lead_ns:
                while now_ns < heap[0][0]:
                    now_ns = time.monotonic_ns()
                self._wake_up(now_ns)
            if self.gathers_for:
                self._events += len(ready) + waited.heard
                if now_ns - self._events_since_ns >= _RATE_WINDOW_NS:
                    self._look_at_rate(now_ns)
        return bool(ready) or waited.heard > 0

    def _wait(self, timeout_s: float | None, *, gather_ns: int) -> Waited:
        if self.receiver is None:
            if gather_ns:
                self._gather()
            return Waited(self._poll.poll(timeout_s, MOST_EVENTS), 0)
        due_ns = self._heap[0][0] if self._heap else 0
        waited = self.receiver.wait(timeout_s, gather_ns=gather_ns, due_ns=due_ns)
        if waited.relayed and self.relay is not None:
            self.begun += waited.relayed
            self.relay.collect()
        return waited

    def _look_at_rate(self, now_ns: int) -> None:
        span_ns, begun = now_ns - self._events_since_ns, self.begun - self._begun_before
        self._gather_ns = gathering_ns(self._events, begun, streams=self.gathers_for, span_ns=span_ns)
        self._events, self._events_since_ns, self._begun_before = 0, now_ns, self.begun

    def _gather(self) -> None:
        """Let a moment pass, at most half of the time to a deadline; this waits for nobody's state."""
        due_in_ns = self._heap[0][0] - time.monotonic_ns() if self._heap else 2 * self._gather_ns
        if due_in_ns >= 2 * LEAST_GATHER_NS:
            time.sleep(min(self._gather_ns, due_in_ns // 2) / 1e9)

    def _timeout(self, at_most_s: float | None) -> float | None:
        """Arm the timer where there is one; else, turn the next deadline into a time-out."""
        if not self._heap:
            return at_most_s
        next_ns = self._heap[0][0]
        if self._timer is not None:
            if self._timer.armed_ns != next_ns - self.lead_ns:
                self._timer.arm(next_ns - self.lead_ns)
            return at_most_s
        until_s = max(0.0, (next_ns - time.monotonic_ns()) / 1e9)
        return until_s if at_most_s is None else min(until_s, at_most_s)

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
    """What `select.epoll` does, on systems without it."""

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
