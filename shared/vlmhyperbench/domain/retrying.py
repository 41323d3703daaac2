"""How often a job that fails is tried again, and after which pause. Pure."""

from __future__ import annotations

FAILS_WITHOUT_ROW = 3
"""Number of failures after which a job without a row is given up, and its run fails."""

FAILS_WITHOUT_PROGRESS = 6
"""Number of consecutive failures without a new row after which a job with rows is given up."""

MAX_BACKOFF_S = 300.0


def is_given_up(*, fails: int, done: int, is_permanent: bool = False) -> bool:
    """Return whether a failed job is given up; `fails` is the number of failures since its last new row."""
    return is_permanent or fails >= (FAILS_WITHOUT_PROGRESS if done else FAILS_WITHOUT_ROW)


def backoff_s(fails: int, draw: float) -> float:
    """Return the pause before the next try: the share `draw` in [0, 1) of 5·2^fails seconds, at most 300 s.

    There is no pause after the first failure, which is most often that of a worker that died.
    """
    return 0.0 if fails <= 1 else draw * min(MAX_BACKOFF_S, 5.0 * 2.0**fails)
