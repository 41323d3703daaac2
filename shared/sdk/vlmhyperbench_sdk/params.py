"""Check the params that a plugin is given: an unknown choice must never silently be the default."""

from __future__ import annotations

from collections.abc import Collection

from vlmhyperbench_sdk.errors import InvalidInput


def check_profile(metric: str, profile: str, known: Collection[str]) -> str:
    """Return the profile.

    Raises:
        InvalidInput: the metric has no such profile.
    """
    if profile not in known:
        raise InvalidInput(
            f"The metric {metric!r} has no profile {profile!r}.", cure=f"Known profiles: {', '.join(known)}."
        )
    return profile


def check_choice(name: str, value: str, known: Collection[str]) -> str:
    """Return what a param chooses.

    Raises:
        InvalidInput: it is none of the known ones.
    """
    if value not in known:
        raise InvalidInput(f"The param {name!r} is {value!r}.", cure=f"Give one of: {', '.join(known)}.")
    return value


def check_flag(name: str, value: object) -> bool:
    """Return a yes or no: text such as "false" would otherwise count as yes.

    Raises:
        InvalidInput: it is neither true nor false.
    """
    if not isinstance(value, bool):
        raise InvalidInput(f"The param {name!r} is {value!r}.", cure="Give true or false.")
    return value
