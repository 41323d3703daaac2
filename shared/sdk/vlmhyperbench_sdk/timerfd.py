"""Timers at absolute monotonic instants: Linux's `timerfd`, which Python's standard library has only since 3.13.

Timeouts of epoll are whole milliseconds; a timer is accurate to some tens of microseconds.
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
    """A timer: a file descriptor that becomes readable at its instant.

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
        """Armed instant in monotonic ns; 0 if not armed."""

    def arm(self, instant_ns: int) -> None:
        """Arm the timer for `time.monotonic_ns() == instant_ns`; a past instant fires at once, 0 disarms it."""
        value = self._setting.value
        value.seconds, value.nanoseconds = divmod(instant_ns, 1_000_000_000)
        self._check(self._libc.timerfd_settime(self.fd, _ABSOLUTE, self._reference, None))
        self.armed_ns = instant_ns

    def acknowledge(self) -> None:
        """Acknowledge that the timer has fired."""
        self.armed_ns = 0
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            # The timer was armed again after it had fired.
            return

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)

    @staticmethod
    def _check(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result
