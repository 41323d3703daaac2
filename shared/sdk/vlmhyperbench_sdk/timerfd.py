"""Wake up at absolute monotonic instants: Linux's `timerfd`, which Python has of its own only from 3.13 on.

Epoll's own time-outs are whole milliseconds; a timer's instant is exact to some tens of microseconds.
"""

from __future__ import annotations

import ctypes
import os

_CLOCK_MONOTONIC = 1
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
_ABSOLUTE = 1


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Timer:
    """One timer, a file descriptor that becomes readable at its instant.

    Raises:
        OSError: the process has too many files open.
        AttributeError: the system is not Linux.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._setting = _Itimerspec()
        self._reference = ctypes.byref(self._setting)
        self.fd = self._check(self._libc.timerfd_create(_CLOCK_MONOTONIC, _NONBLOCK_CLOEXEC))
        self.armed_ns = 0
        """0: not armed."""

    def arm(self, instant_ns: int) -> None:
        """Become readable at `time.monotonic_ns() == instant_ns`; 0 never, and what has passed at once."""
        value = self._setting.value
        value.seconds, value.nanoseconds = divmod(instant_ns, 1_000_000_000)
        self._check(self._libc.timerfd_settime(self.fd, _ABSOLUTE, self._reference, None))
        self.armed_ns = instant_ns

    def acknowledge(self) -> None:
        """Take note that the instant has come."""
        self.armed_ns = 0
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            # It was armed anew after it had become readable.
            return

    def close(self) -> None:
        """Free the descriptor."""
        os.close(self.fd)

    @staticmethod
    def _check(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result
