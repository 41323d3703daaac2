"""Call back at absolute monotonic instants, to tens of microseconds: epoll's own time-outs are whole milliseconds."""

from __future__ import annotations

import asyncio
import ctypes
import heapq
import os
import sys
import time
from collections.abc import Callable

_CLOCK_MONOTONIC = 1
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
_ABSOLUTE = 1


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Pacer:
    """One absolute timer (`timerfd` on Linux, the event loop's elsewhere) and a heap of what is due."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._armed_ns = 0
        self._is_firing = False
        self._libc: ctypes.CDLL | None = None
        self._handle: asyncio.TimerHandle | None = None
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._fd = self._libc.timerfd_create(_CLOCK_MONOTONIC, _NONBLOCK_CLOEXEC)
            if self._fd < 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
            loop.add_reader(self._fd, self._on_timer)

    def at(self, instant_ns: int, callback: Callable[[], None]) -> None:
        """Call back once `time.monotonic_ns()` has reached `instant_ns`; never before."""
        self._count += 1
        heapq.heappush(self._due, (instant_ns, self._count, callback))
        if not self._is_firing and (not self._armed_ns or instant_ns < self._armed_ns):
            self._arm(instant_ns)

    def close(self) -> None:
        """Forget whatever is due."""
        self._due.clear()
        if self._libc is not None:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._libc = None
        elif self._handle is not None:
            self._handle.cancel()

    def _on_timer(self) -> None:
        if self._libc is not None:
            os.read(self._fd, 8)
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
        if self._libc is None:
            if self._handle is not None:
                self._handle.cancel()
            delay_s = (instant_ns - time.monotonic_ns()) / 1e9
            self._handle = self._loop.call_later(max(0.0, delay_s), self._on_timer)
            return
        seconds, nanoseconds = divmod(max(1, instant_ns), 1_000_000_000)
        setting = _Itimerspec(_Timespec(0, 0), _Timespec(seconds, nanoseconds))
        if self._libc.timerfd_settime(self._fd, _ABSOLUTE, ctypes.byref(setting), None) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
