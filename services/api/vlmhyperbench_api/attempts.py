"""Limit on failed attempts: whoever fails too often from one address is refused for a while, whatever it sends then."""

from __future__ import annotations

import time
from collections import OrderedDict, deque

from vlmhyperbench_api.errors import TooMany

MAX_FAILURES = 10
WINDOW_S = 60.0
_MAX_ADDRESSES = 10_000
"""Addresses that are remembered; the one that failed the longest time ago is forgotten first."""


class Attempts:
    """The failures of the last minute by address, in the memory of one API process."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, address: str, *, now: float | None = None) -> None:
        """Refuse an address with too many failures.

        Raises:
            TooMany: it has to wait.
        """
        now = time.monotonic() if now is None else now
        failures = self._failures.get(address, deque())
        while failures and failures[0] <= now - WINDOW_S:
            failures.popleft()
        if len(failures) >= MAX_FAILURES:
            message = f"{MAX_FAILURES} attempts from this address have failed within a minute."
            raise TooMany(message, cure="Wait a minute, and use a valid token.")

    def failed(self, address: str, *, now: float | None = None) -> None:
        """Count a failure."""
        failures = self._failures.setdefault(address, deque(maxlen=MAX_FAILURES))
        failures.append(time.monotonic() if now is None else now)
        self._failures.move_to_end(address)
        while len(self._failures) > _MAX_ADDRESSES:
            self._failures.popitem(last=False)
