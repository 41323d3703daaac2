"""The ratio of two targets measured in pairs: what both shared, such as the hour and the seed, cancels out. Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from vlmhyperbench.analysis.repeats import mean_of_repeats
from vlmhyperbench.analysis.results import CONFIDENCE
from vlmhyperbench_sdk.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRatio:
    """The second over the first: the geometric mean over pairs with its interval. 1.1 is a tenth more."""

    pairs: int
    ratio: float | None
    low: float | None
    high: float | None
    confidence: float = CONFIDENCE
    reason: str | None = None
    """Why there is no ratio or no interval."""

    @property
    def differs(self) -> bool:
        """Whether the interval excludes 1."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


def ratio_of_pairs(
    first: Sequence[float | None], second: Sequence[float | None], *, confidence: float = CONFIDENCE
) -> PairedRatio:
    """Compare values pair by pair: Student's t interval of the logarithms' mean difference, which are taken as normal.

    Args:
        first: Of each pair. Shape: (pairs,).
        second: Of each pair, in the same order. Shape: (pairs,).
        confidence: Of the interval.

    Raises:
        InvalidInput: the lengths differ, or the confidence is out of range.
    """
    if len(first) != len(second):
        raise InvalidInput(f"{len(first)} and {len(second)} values make no pairs.")
    logs = [math.log(b / a) if a and b and a > 0 and b > 0 else None for a, b in zip(first, second, strict=True)]
    found = mean_of_repeats(logs, confidence=confidence)
    ratio = PairedRatio(pairs=found.n, ratio=None, low=None, high=None, confidence=confidence)
    if found.mean is None:
        reason = f"{len(logs) - found.n} of {len(logs)} pairs lack a value" if logs else "nothing was measured"
        return dataclasses.replace(ratio, reason=reason)
    ratio = dataclasses.replace(ratio, ratio=math.exp(found.mean))
    if found.low is None or found.high is None:
        return dataclasses.replace(ratio, reason="one pair has no interval")
    return dataclasses.replace(ratio, low=math.exp(found.low), high=math.exp(found.high))
