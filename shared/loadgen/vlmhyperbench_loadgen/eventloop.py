"""Wait for sockets, pipes and instants in one place: a selector and a heap of deadlines."""

from __future__ import annotations

import heapq
import selectors
import time
from typing import Protocol


class Watcher(Protocol):
    """Something that is told when its file descriptor is ready."""

    def ready(self, fd: int, mask: int) -> None: ...


class Sleeper(Protocol):
    """Something that is told when its deadline has passed. `armed_ns` belongs to the loop."""

    deadline_ns: int
    """0: none."""
    armed_ns: int

    def due(self, now_ns: int) -> None: ...


class EventLoop:
    """A selector with deadlines; everything runs in the caller's thread, inside `step`."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._heap: list[tuple[int, int, Sleeper]] = []
        self._count = 0

    def watch(self, fd: int, mask: int, watcher: Watcher) -> None:
        """Tell `watcher` when `fd` is ready."""
        self._selector.register(fd, mask, watcher)

    def change(self, fd: int, mask: int, watcher: Watcher) -> None:
        """Wait for something else on a watched `fd`."""
        self._selector.modify(fd, mask, watcher)

    def unwatch(self, fd: int) -> None:
        """Forget `fd`; must come before it is closed."""
        self._selector.unregister(fd)

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
        timeout: float | None = 0.0
        if waits:
            timeout = at_most_s
            if self._heap:
                until_s = (self._heap[0][0] - time.monotonic_ns()) / 1e9
                if timeout is None or until_s < timeout:
                    timeout = max(0.0, until_s)
        ready = self._selector.select(timeout)
        for key, mask in ready:
            key.data.ready(key.fd, mask)
        heap = self._heap
        if heap:
            now_ns = time.monotonic_ns()
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
        return bool(ready)

    def close(self) -> None:
        """Free the selector."""
        self._selector.close()
