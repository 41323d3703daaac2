"""What a comparison that shows no difference is worth: proof that two targets are alike, or too few samples to tell.

Both rest on the jackknife's pseudo-values of the paired difference, one per unit: for a mean over units of one sample
they are the differences themselves, and for pooled metrics they carry the same variance (Tukey 1958). scipy computes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from vlmhyperbench.analysis.results import CONFIDENCE
from vlmhyperbench.analysis.stats import Estimator, FloatArray

POWER = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalence:
    """Two one-sided tests: is the difference inside of ±`margin`?"""

    margin: float
    p_value: float
    units: int

    @property
    def is_shown(self) -> bool:
        """Whether both one-sided tests reject at 0.05: the 90 % interval lies inside of the margin."""
        return self.p_value < 1 - CONFIDENCE


def pseudo_values(first: FloatArray, second: FloatArray, estimator: Estimator) -> FloatArray:
    """Return the jackknife's pseudo-values of second minus first. Shape: (units,).

    Args:
        first: sums of each unit for one target. Shape: (units, statistics).
        second: the same units, in the same order, for the other. Shape: (units, statistics).
        estimator: from sums to value.
    """
    total_first, total_second = first.sum(axis=0), second.sum(axis=0)
    whole = estimator(total_second) - estimator(total_first)
    without = estimator(total_second - second) - estimator(total_first - first)
    count = len(first)
    return np.asarray(count * whole - (count - 1) * without, dtype=np.float64)


def equivalence(pseudo: FloatArray, *, margin: float, scale: float) -> Equivalence | None:
    """Test whether the paired difference is smaller than `margin` either way (Schuirmann 1987).

    Where all units differ alike no spread is known, and a t-test would believe three of them. What may be unseen then
    is a share of units that differ by the metric's whole `scale`: one large enough to reach the margin would have
    escaped so many draws with the probability that is returned.

    None where it cannot be tested: fewer than two units, or a value that is undefined.
    """
    count = len(pseudo)
    if count < 2 or not np.isfinite(pseudo).all():
        return None
    if np.ptp(pseudo) <= 1e-12:
        unseen = min(max(margin - abs(float(pseudo[0])), 0.0) / scale, 1.0)
        return Equivalence(margin=margin, p_value=(1 - unseen) ** count, units=count)
    low = stats.ttest_1samp(pseudo, -margin, alternative="greater").pvalue
    high = stats.ttest_1samp(pseudo, margin, alternative="less").pvalue
    return Equivalence(margin=margin, p_value=float(max(low, high)), units=count)


def detectable_effect(pseudo: FloatArray, *, power: float = POWER, confidence: float = CONFIDENCE) -> float | None:
    """Return the smallest true difference that a paired t-test on as many units finds with the given power.

    From the non-central t distribution (Cohen 1988, section 2.3). None with fewer than two units, without any spread,
    or where a value is undefined.
    """
    count = len(pseudo)
    if count < 2 or not np.isfinite(pseudo).all() or np.ptp(pseudo) <= 1e-12:
        return None
    freedom = count - 1
    critical = stats.t.ppf((1 + confidence) / 2, freedom)

    def missing(shift: float) -> float:
        # The far tail adds nothing where the power is worth having, and scipy loses it in large shifts.
        return float(stats.nct.sf(critical, freedom, shift)) - power

    shift = optimize.brentq(missing, 0.0, 2 * critical + 1)
    return float(shift * pseudo.std(ddof=1) / np.sqrt(count))
