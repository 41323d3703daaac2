"""Normal and Student distributions in plain Python: an API without scipy compares runs with the same numbers.

Tests hold every function against scipy's.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np

NORMAL = NormalDist()

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(256)
_SERIES_FROM = 100.0


def upper_tail(t: float, freedom: float) -> float:
    """Return the probability that Student's variable exceeds `t` (Abramowitz and Stegun 1964, 26.7.1).

    Args:
        t: Any finite number.
        freedom: Degrees of freedom, above 0; infinity is the normal distribution.
    """
    if math.isinf(freedom):
        return math.erfc(t / math.sqrt(2)) / 2
    if t < 0:
        return 1 - upper_tail(-t, freedom)
    share, rest = freedom / (freedom + t * t), t * t / (freedom + t * t)
    a, b = freedom / 2, 0.5
    # share^a rest^b / B(a, b), by which both continued fractions are multiplied.
    scale = _gamma_ratio(a) / math.sqrt(math.pi) * math.exp(-a * math.log1p(t * t / freedom)) * math.sqrt(rest)
    if share < (a + 1) / (a + b + 2):
        return scale * _beta_fraction(share, a, b) / a / 2
    return (1 - scale * _beta_fraction(rest, b, a) / b) / 2


@lru_cache(maxsize=4096)
def upper_quantile(tail: float, freedom: float) -> float:
    """Return the `t` that Student's variable exceeds with a probability of `tail`, above 0 and at most 0.5.

    Newton's method from the quantile of the normal distribution: to the right of 0 the tail is convex and falls, and
    the normal quantile is left of the root, so every step stays left of it and none overshoots.
    """
    t = -NORMAL.inv_cdf(tail)
    if math.isinf(freedom):
        return t
    while True:
        step = (upper_tail(t, freedom) - tail) / _density(t, freedom)
        t += step
        if not step > 1e-14 * max(t, 1.0):  # a step back is rounding: nothing is left to gain
            return t


def noncentral_upper_tail(t: float, freedom: float, shift: float) -> float:
    """Return the probability that the non-central Student variable exceeds `t`.

    The variable is (Z + shift) / S, Z being normal and S² a chi-squared variable over its degrees of freedom; the
    probability is the mean of Φ(shift − t S) over S, by Gauss and Legendre's quadrature.
    """
    spread = 12 / math.sqrt(2 * freedom)
    low, high = max(0.0, 1 - spread), 1 + spread
    values = (low + high) / 2 + (high - low) / 2 * _NODES
    with np.errstate(divide="ignore"):
        logs = (freedom - 1) * np.log(values) - freedom * values**2 / 2
    densities = np.exp(logs - logs.max())
    below = np.array([math.erfc((t * value - shift) / math.sqrt(2)) / 2 for value in values.tolist()])
    weights = _WEIGHTS * densities
    return float((weights @ below) / weights.sum())


def _density(t: float, freedom: float) -> float:
    ratio = _gamma_ratio(freedom / 2) / math.sqrt(freedom * math.pi)
    return ratio * math.exp(-(freedom + 1) / 2 * math.log1p(t * t / freedom))


def _gamma_ratio(a: float) -> float:
    """Return Γ(a + 1/2) / Γ(a); logarithms of large factorials would lose digits."""
    if a < _SERIES_FROM:
        return math.exp(math.lgamma(a + 0.5) - math.lgamma(a))
    series = 1 - 1 / (8 * a) + 1 / (128 * a**2) + 5 / (1024 * a**3) - 21 / (32768 * a**4)
    return math.sqrt(a) * series


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of the incomplete beta function (Abramowitz and Stegun 1964, 26.5.8)."""
    numerator, denominator = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = denominator
    m = 0
    while True:  # 45 steps at most for up to a million degrees of freedom
        m += 1
        for coefficient in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            denominator = 1 / (1 + coefficient * denominator)
            numerator = 1 + coefficient / numerator
            change = numerator * denominator
            value *= change
        if not abs(change - 1) >= 1e-15:
            return value
