"""Whole measurements repeated: the interval of their mean, and when there are enough of them. Pure.

A repeat is one value, so nothing is assumed of the requests inside; the values of repeats are taken to be normal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import special

from vlmhyperbench.analysis.results import CONFIDENCE
from vlmhyperbench_sdk.errors import InvalidInput

MIN_REPEATS = 3
"""Before so many nobody looks whether there are enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedMean:
    """The mean of one metric over repeats, with Student's t interval between them."""

    n: int
    mean: float | None
    sd: float | None
    """Between repeats; None of fewer than two."""
    low: float | None
    high: float | None
    confidence: float = CONFIDENCE
    reason: str | None = None
    """Why there is no mean or no interval."""

    @property
    def precision(self) -> float | None:
        """Half the interval over the mean; None where either is not there or the mean is 0."""
        if self.mean is None or self.low is None or self.high is None or self.mean == 0:
            return None
        return (self.high - self.low) / 2 / abs(self.mean)


def mean_of_repeats(values: Sequence[float | None], *, confidence: float = CONFIDENCE) -> RepeatedMean:
    """Describe the mean over repeats; a repeat without a value leaves none, since leaving it out would flatter.

    Raises:
        InvalidInput: the confidence is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise InvalidInput(f"A confidence lies between 0 and 1; {confidence} does not.")
    known = [value for value in values if value is not None]
    n = len(known)
    if n < len(values) or n == 0:
        reason = f"{len(values) - n} of {len(values)} repeats have no value" if values else "nothing was measured"
        return RepeatedMean(n=n, mean=None, sd=None, low=None, high=None, confidence=confidence, reason=reason)
    mean = math.fsum(known) / n
    if n == 1:
        reason = "one repeat has no interval"
        return RepeatedMean(n=1, mean=mean, sd=None, low=None, high=None, confidence=confidence, reason=reason)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in known) / (n - 1))
    reach = float(special.stdtrit(n - 1, (1 + confidence) / 2)) * sd / math.sqrt(n)
    return RepeatedMean(n=n, mean=mean, sd=sd, low=mean - reach, high=mean + reach, confidence=confidence)


def confidence_of_look(repeats: int, *, confidence: float = CONFIDENCE) -> float:
    """Return the confidence of the interval after so many repeats, if it is looked at after each of them.

    Look k may miss with (1 - confidence) / (k (k + 1)). These add up to 1 - confidence over all looks there can be, so
    the chance that any interval ever looked at misses is no larger, whenever one stops (Bonferroni with spending).

    Raises:
        InvalidInput: there are fewer than `MIN_REPEATS` repeats.
    """
    if repeats < MIN_REPEATS:
        raise InvalidInput(f"Nobody looks before {MIN_REPEATS} repeats.")
    look = repeats - MIN_REPEATS + 1
    return 1 - (1 - confidence) / (look * (look + 1))


def look(values: Sequence[float | None], *, confidence: float = CONFIDENCE) -> RepeatedMean | None:
    """Describe the mean as it may be looked at after every repeat; None before `MIN_REPEATS`."""
    if len(values) < MIN_REPEATS:
        return None
    return mean_of_repeats(values, confidence=confidence_of_look(len(values), confidence=confidence))
