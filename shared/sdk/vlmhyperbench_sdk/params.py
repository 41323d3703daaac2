"""Validate params of plugins, so that an unknown choice never silently means the default."""

from __future__ import annotations

from collections.abc import Collection

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.suggestions import choose


def check_profile(metric: str, profile: str, known: Collection[str]) -> str:
    """Return a metric's profile.

    Raises:
        InvalidInput: the metric has no such profile.
    """
    if profile not in known:
        raise InvalidInput(f"The metric {metric!r} has no profile {profile!r}.", cure=choose(known))
    return profile


def check_choice(name: str, value: str, known: Collection[str]) -> str:
    """Return the value of a param with fixed choices.

    Raises:
        InvalidInput: it is not one of the choices.
    """
    if value not in known:
        raise InvalidInput(f"The param {name!r} cannot be {value!r}.", cure=choose(known))
    return value


def check_flag(name: str, value: object) -> bool:
    """Return the value of a boolean param; text is refused, since text such as "false" would count as true.

    Raises:
        InvalidInput: it is neither true nor false.
    """
    if not isinstance(value, bool):
        raise InvalidInput(f"The param {name!r} cannot be {value!r}.", cure="Write true or false, without quotes.")
    return value
