"""Repeats of whole measurements: the interval of their mean, and when there are enough of them. Pure.

A repeat is one value, so no assumption is made about its requests. The values of repeats are assumed to be normally
distributed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import special

from vlmhyperbench.analysis.percentiles import check_confidence
from vlmhyperbench.analysis.results import CONFIDENCE
from vlmhyperbench_sdk.errors import InvalidInput

MIN_REPEATS = 3
"""Smallest number of repeats after which their precision is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedMean:
    """Mean of one metric over repeats, with Student's t interval."""

    n: int
    mean: float | None
    sd: float | None
    """Standard deviation between repeats; None with fewer than two."""
    low: float | None
    high: float | None
    confidence: float = CONFIDENCE
    reason: str | None = None
    """Why there is no mean or no interval."""

    @property
    def precision(self) -> float | None:
        """Half the interval over the mean; None where one of them is missing or the mean is 0."""
        if self.mean is None or self.low is None or self.high is None or self.mean == 0:
            return None
        return (self.high - self.low) / 2 / abs(self.mean)


def mean_of_repeats(values: Sequence[float | None], *, confidence: float = CONFIDENCE) -> RepeatedMean:
    """Describe the mean over repeats.

    With a repeat that has no value there is no mean: leaving this repeat out would improve the result.

    Raises:
        InvalidInput: the confidence is not between 0 and 1.
    """
    check_confidence(confidence)
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
    half_width = half_width_of_mean(sd, n, confidence=confidence)
    return RepeatedMean(n=n, mean=mean, sd=sd, low=mean - half_width, high=mean + half_width, confidence=confidence)


def half_width_of_mean(sd: float, n: int, *, confidence: float) -> float:
    """Return half of Student's t interval of the mean of n values with a standard deviation."""
    return float(special.stdtrit(n - 1, (1 + confidence) / 2)) * sd / math.sqrt(n)


def confidence_of_look(repeats: int, *, confidence: float = CONFIDENCE) -> float:
    """Return the confidence of the interval after a number of repeats, if it is looked at after each of them.

    Look k may miss with a probability of (1 - confidence) / (k (k + 1)). Over all looks these add up to 1 - confidence,
    so that any stopping time is allowed (Bonferroni with alpha spending).

    Raises:
        InvalidInput: there are fewer than `MIN_REPEATS` repeats.
    """
    if repeats < MIN_REPEATS:
        message = f"{repeats} repeats are too few to evaluate."
        raise InvalidInput(message, cure=f"Repeat the measurement at least {MIN_REPEATS} times.")
    look = repeats - MIN_REPEATS + 1
    return 1 - (1 - confidence) / (look * (look + 1))


def look(values: Sequence[float | None], *, confidence: float = CONFIDENCE) -> RepeatedMean | None:
    """Describe the mean with an interval that allows for looking after every repeat; None before `MIN_REPEATS`."""
    if len(values) < MIN_REPEATS:
        return None
    return mean_of_repeats(values, confidence=confidence_of_look(len(values), confidence=confidence))
