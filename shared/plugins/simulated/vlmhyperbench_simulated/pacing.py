"""Call back at absolute monotonic instants, within tens of microseconds; time-outs of epoll are whole milliseconds."""

from __future__ import annotations

import asyncio
import heapq
import sys
import time
from collections.abc import Callable

from vlmhyperbench_sdk.timerfd import Timer


class Pacer:
    """One absolute timer (`timerfd` on Linux, the event loop's elsewhere) and a heap of callbacks by instant."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._armed_ns = 0
        self._is_firing = False
        self._timer: Timer | None = None
        self._handle: asyncio.TimerHandle | None = None
        if sys.platform == "linux":
            self._timer = Timer()
            loop.add_reader(self._timer.fd, self._on_timer)

    def at(self, instant_ns: int, callback: Callable[[], None]) -> None:
        """Call back once `time.monotonic_ns()` has reached `instant_ns`; never before."""
        self._count += 1
        heapq.heappush(self._due, (instant_ns, self._count, callback))
        if not self._is_firing and (not self._armed_ns or instant_ns < self._armed_ns):
            self._arm(instant_ns)

    def close(self) -> None:
        """Drop all callbacks."""
        self._due.clear()
        if self._timer is not None:
            self._loop.remove_reader(self._timer.fd)
            self._timer.close()
            self._timer = None
        elif self._handle is not None:
            self._handle.cancel()

    def _on_timer(self) -> None:
        if self._timer is not None:
            self._timer.acknowledge()
        self._is_firing = True
        try:
            while self._due and self._due[0][0] <= time.monotonic_ns():
                heapq.heappop(self._due)[2]()
        finally:
            self._is_firing = False
            self._armed_ns = 0
        if self._due:
            self._arm(self._due[0][0])

    def _arm(self, instant_ns: int) -> None:
        self._armed_ns = instant_ns
        if self._timer is not None:
            self._timer.arm(max(1, instant_ns))
            return
        if self._handle is not None:
            self._handle.cancel()
        delay_s = (instant_ns - time.monotonic_ns()) / 1e9
        self._handle = self._loop.call_later(max(0.0, delay_s), self._on_timer)
