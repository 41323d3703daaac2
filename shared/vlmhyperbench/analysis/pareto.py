"""Which of several candidates nothing beats: the Pareto front over any number of criteria."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Direction = Literal["higher", "lower"]


def non_dominated(candidates: Sequence[Sequence[float | None]], directions: Sequence[Direction]) -> list[bool | None]:
    """Say of each candidate whether no other is at least as good in everything and better in something.

    Candidates that are equal in everything do not beat each other. One that lacks a value can neither be beaten nor
    beat: its answer is None.

    Args:
        candidates: a value per criterion for each. Shape: (candidates, criteria).
        directions: which end of each criterion is good. Shape: (criteria,).
    """
    turned = [_turned(candidate, directions) for candidate in candidates]
    known = {values for values in turned if values is not None}
    front = {values for values in known if not any(_beats(other, values) for other in known)}
    return [None if values is None else values in front for values in turned]


def _turned(candidate: Sequence[float | None], directions: Sequence[Direction]) -> tuple[float, ...] | None:
    """Make more always better; None where a value is missing."""
    signed = [
        value if direction == "higher" else -value
        for value, direction in zip(candidate, directions, strict=True)
        if value is not None
    ]
    return tuple(signed) if len(signed) == len(directions) else None


def _beats(point: Sequence[float], other: Sequence[float]) -> bool:
    return point != other and all(mine >= theirs for mine, theirs in zip(point, other, strict=True))
