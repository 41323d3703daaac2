"""Krippendorff's alpha: how far members agree beyond chance, where some of them gave no answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Alpha:
    """Agreement of several members on the same samples."""

    value: float | None
    """1 is perfect agreement, 0 what chance gives; None where all answers are the same, or too few can be paired."""
    samples: int
    """Number of samples that at least two members answered; the others tell nothing about agreement."""
    answers: int
    """Number of answers to these samples."""
    unanimous: int
    """Number of these samples whose answers are all the same."""


def nominal_alpha(answers: Sequence[Sequence[Hashable | None]]) -> Alpha:
    """Return Krippendorff's alpha of nominal values.

    The source is Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section C.

    Args:
        answers: Answers of each member, None where it has none. Shape: (members, samples).
    """
    totals: Counter[Hashable] = Counter()
    disagreement, samples, unanimous = 0.0, 0, 0
    for given in zip(*answers, strict=True):
        counts = Counter(answer for answer in given if answer is not None)
        pairable = counts.total()
        if pairable < 2:
            continue
        samples += 1
        unanimous += len(counts) == 1
        totals.update(counts)
        disagreement += (pairable**2 - sum(count**2 for count in counts.values())) / (pairable - 1)
    n = totals.total()
    expected = n**2 - sum(count**2 for count in totals.values())
    value = 1 - (n - 1) * disagreement / expected if expected else None
    return Alpha(value=value, samples=samples, answers=n, unanimous=unanimous)
