"""Rate and remaining time of a job, from the last seconds: for display, never a measurement."""

from __future__ import annotations

from collections import deque

WINDOW_S = 30.0


class Rate:
    """Requests per second over a sliding window of observations."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def update(self, now_s: float, done: int, total: int | None) -> tuple[float | None, float | None]:
        """Add an observation and return (rate per second, remaining seconds); None if they are not known yet."""
        self._seen.append((now_s, done))
        while len(self._seen) > 2 and now_s - self._seen[0][0] > WINDOW_S:
            self._seen.popleft()
        since_s, since_done = self._seen[0]
        if now_s <= since_s or done <= since_done:
            return None, None
        rate = (done - since_done) / (now_s - since_s)
        return rate, None if total is None else max(total - done, 0) / rate
