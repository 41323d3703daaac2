"""Kernel receive timestamps: when bytes reached this machine, independent of when this process read them.

The kernel stamps on the wall clock; its instants are converted to the monotonic clock by readings of both clocks at a
request's start and end. Where the wall clock was set in between, the kernel's instants are not used.
"""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench_sdk.stamps import Reading, read_clocks

MAX_SLEW = 600e-6
"""A wall clock that is slewed gains or loses at most 500 ppm; a larger difference means that it was set."""

_READING_ERROR_NS = 30_000
_FRESH_NS = 1_000_000
_AHEAD_NS = 30_000
"""Because of the errors of readings, a stamp may lie this long after the read that returned its bytes."""


class Clocks:
    """Readings of both clocks that several requests share: their offset hardly changes within a millisecond."""

    def __init__(self) -> None:
        self._last = Reading(0, 0)

    def before(self, now_ns: int) -> Reading:
        """Return a reading taken within the last millisecond."""
        if now_ns - self._last.monotonic_ns > _FRESH_NS:
            self._last = read_clocks()
        return self._last

    def after(self, instant_ns: int) -> Reading:
        """Return a reading taken after an instant in the past."""
        if self._last.monotonic_ns <= instant_ns:
            self._last = read_clocks()
        return self._last


SHARED = Clocks()
"""The readings of this process."""


def to_monotonic(stamps: Sequence[int], times: Sequence[int], began: Reading, ended: Reading) -> list[int] | None:
    """Convert stamps to the monotonic clock; None where they cannot be trusted.

    They are not trusted if the wall clock was set between the readings, or if a stamp lies after the read that
    returned its bytes, before the request was sent, or out of order.

    Args:
        stamps: The kernel's instants of each read, ns of the wall clock. Shape: (reads,).
        times: When this process read, on the monotonic clock. Shape: (reads,).
        began: The clocks before the first read.
        ended: The clocks after the last one.
    """
    moved_ns = ended.offset_ns - began.offset_ns
    span_ns = max(1, ended.monotonic_ns - began.monotonic_ns)
    if abs(moved_ns) > MAX_SLEW * span_ns + _READING_ERROR_NS:
        return None
    slope, zero_ns = moved_ns / span_ns, began.monotonic_ns
    arrived: list[int] = []
    previous_ns = zero_ns - _READING_ERROR_NS
    for stamp_ns, read_ns in zip(stamps, times, strict=True):
        arrived_ns = stamp_ns - began.offset_ns - round(slope * (read_ns - zero_ns))
        if not previous_ns <= arrived_ns <= read_ns + _AHEAD_NS:
            return None
        arrived.append(min(arrived_ns, read_ns))
        previous_ns = arrived_ns
    return arrived
