"""The Pareto front of candidates over any number of criteria."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Direction = Literal["higher", "lower"]


def non_dominated(candidates: Sequence[Sequence[float | None]], directions: Sequence[Direction]) -> list[bool | None]:
    """Say of each candidate whether it is on the front: no other dominates it.

    A candidate dominates another where it is at least as good in every criterion and better in one. Equal candidates
    do not dominate each other. A candidate that lacks a value does not take part; its result is None.

    Args:
        candidates: Value of each candidate in each criterion. Shape: (candidates, criteria).
        directions: Which end of each criterion is good. Shape: (criteria,).
    """
    signed = [_signed(candidate, directions) for candidate in candidates]
    front: set[tuple[float, ...]] = set()
    # What dominates a candidate stands before it in this order, and so does a member of the front that dominates both.
    for values in sorted({values for values in signed if values is not None}, reverse=True):
        if not any(_dominates(other, values) for other in front):
            front.add(values)
    return [None if values is None else values in front for values in signed]


def _signed(candidate: Sequence[float | None], directions: Sequence[Direction]) -> tuple[float, ...] | None:
    """Change signs so that higher is always better; None where a value is missing."""
    signed = [
        value if direction == "higher" else -value
        for value, direction in zip(candidate, directions, strict=True)
        if value is not None
    ]
    return tuple(signed) if len(signed) == len(directions) else None


def _dominates(first: Sequence[float], second: Sequence[float]) -> bool:
    return first != second and all(left >= right for left, right in zip(first, second, strict=True))
