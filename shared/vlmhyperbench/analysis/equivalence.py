"""Equivalence of two targets, and the smallest difference that a comparison can detect.

Together they tell whether a comparison without a difference shows that two targets are alike, or has too few samples.
Both use the jackknife's pseudo-values of the paired difference, one per unit. For a mean over units of one sample
these are the differences themselves; for pooled metrics they have the same variance (Tukey 1958).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vlmhyperbench.analysis.results import CONFIDENCE
from vlmhyperbench.analysis.stats import Estimator, FloatArray
from vlmhyperbench.analysis.student import noncentral_upper_tail, upper_quantile, upper_tail

POWER = 0.8
_HALVINGS = 45


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalence:
    """Result of two one-sided tests of whether the difference is within ±`margin`."""

    margin: float
    p_value: float
    units: int

    @property
    def is_shown(self) -> bool:
        """Whether both one-sided tests reject at 0.05: the 90 % interval is within the margin."""
        return self.p_value < 1 - CONFIDENCE


def pseudo_values(first: FloatArray, second: FloatArray, estimator: Estimator) -> FloatArray:
    """Return the jackknife's pseudo-values of second minus first. Shape: (units,).

    Args:
        first: Sums of each unit for one target. Shape: (units, statistics).
        second: Sums of the same units, in the same order, for the other target. Shape: (units, statistics).
        estimator: Maps sums to a value.
    """
    total_first, total_second = first.sum(axis=0), second.sum(axis=0)
    whole = estimator(total_second) - estimator(total_first)
    without = estimator(total_second - second) - estimator(total_first - first)
    count = len(first)
    return np.asarray(count * whole - (count - 1) * without, dtype=np.float64)


def equivalence(pseudo: FloatArray, *, margin: float, scale: float) -> Equivalence | None:
    """Test whether the paired difference is within ±`margin` (Schuirmann 1987).

    Where all units differ by the same amount there is no variance, and a t-test would be certain after three units.
    Instead, assume that an unseen share of all units differs by the metric's whole `scale`, and that this share is just
    large enough to bring the difference to the margin. The p-value is then the probability that none of them was drawn.

    Returns:
        None where it cannot be tested: fewer than two units, or an undefined value.
    """
    count = len(pseudo)
    if count < 2 or not np.isfinite(pseudo).all():
        return None
    if np.ptp(pseudo) <= 1e-12:
        unseen = min(max(margin - abs(float(pseudo[0])), 0.0) / scale, 1.0)
        return Equivalence(margin=margin, p_value=(1 - unseen) ** count, units=count)
    # The test on the side to which the difference is nearer has the larger p-value.
    distance = (margin - abs(float(pseudo.mean()))) / _standard_error(pseudo)
    return Equivalence(margin=margin, p_value=upper_tail(distance, count - 1), units=count)


def detectable_effect(pseudo: FloatArray, *, power: float = POWER, confidence: float = CONFIDENCE) -> float | None:
    """Return the smallest true difference that a paired t-test on this number of units detects with the given power.

    It is computed from the non-central t distribution (Cohen 1988, section 2.3).

    Returns:
        None with fewer than two units, without variance, or where a value is undefined.
    """
    count = len(pseudo)
    if count < 2 or not np.isfinite(pseudo).all() or np.ptp(pseudo) <= 1e-12:
        return None
    freedom = count - 1
    critical = upper_quantile((1 - confidence) / 2, freedom)
    # The opposite tail is negligible at useful powers. Power grows with the shift, so halving finds it.
    low, high = 0.0, 2 * critical + 1
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if noncentral_upper_tail(critical, freedom, middle) > power else (middle, high)
    return (low + high) / 2 * _standard_error(pseudo)


def _standard_error(values: FloatArray) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values))
