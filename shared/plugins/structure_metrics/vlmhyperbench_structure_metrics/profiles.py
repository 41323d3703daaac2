"""Check the profile that a metric is asked for: an unknown one must never silently be the default."""

from __future__ import annotations

from collections.abc import Sequence

from vlmhyperbench_sdk.errors import InvalidInput


def check_profile(metric: str, profile: str, known: Sequence[str]) -> str:
    """Return the profile.

    Raises:
        InvalidInput: the metric has no such profile.
    """
    if profile not in known:
        raise InvalidInput(
            f"The metric {metric!r} has no profile {profile!r}.", cure=f"Known profiles: {', '.join(known)}."
        )
    return profile
