"""Bounds of values of which some are not known."""

from __future__ import annotations

from collections.abc import Iterable


def min_known(values: Iterable[int | None]) -> int | None:
    """Return the smallest known value; None if no value is known."""
    return min((value for value in values if value is not None), default=None)


def max_known(values: Iterable[int | None]) -> int | None:
    """Return the largest known value; None if no value is known."""
    return max((value for value in values if value is not None), default=None)
