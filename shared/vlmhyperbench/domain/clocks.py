"""How far the clocks of two machines differ, as far as one exchange between them proves it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

MAX_CLOCK_DIFFERENCE: Final = timedelta(seconds=5)
"""Difference above which a user is warned."""
CLOCK_CURE: Final = "Set the clocks of both machines by NTP (`timedatectl set-ntp true`)."


def clock_ahead(*, sent: datetime, theirs: datetime, received: datetime) -> timedelta:
    """Return how far this machine's clock is at least ahead of another's, which told its time in between.

    What may be the way of the messages counts as no difference.
    """
    ahead = sent + (received - sent) / 2 - theirs
    certain = max(abs(ahead) - abs(received - sent) / 2, timedelta(0))
    return certain if ahead > timedelta(0) else -certain


def clock_warning(ahead: timedelta, *, other: str) -> str | None:
    """Return the sentence on a clock that is too far off; None if it is not."""
    if abs(ahead) <= MAX_CLOCK_DIFFERENCE:
        return None
    direction = "ahead of" if ahead > timedelta(0) else "behind"
    return (
        f"The clock of this machine is {abs(ahead).total_seconds():.0f} s {direction} that of {other}. Leases and "
        "speeds do not depend on it, but the times in reports and logs do, and S3 refuses requests that are 15 minutes "
        "off."
    )
