"""The bands in which the figures of Poisson arrivals lie with a known probability; pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from vlmhyperbench.domain.arrivals import Shape, shape_of

SIGMAS = 3
"""Half width of the band of the rate, in standard deviations of the mean of all gaps."""

SHARE = 0.99
"""The share of simulated schedules that lies in the bands of CV and dispersion."""

SCHEDULES, SEED = 10_000, 0

Band = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bands:
    """The band of each figure, each by itself."""

    rate_per_s: Band
    cv: Band
    dispersion: Band

    def hold(self, shape: Shape) -> bool:
        """Return whether all three figures lie in their bands."""
        return (
            self.rate_per_s[0] <= shape.rate_per_s <= self.rate_per_s[1]
            and self.cv[0] <= shape.cv <= self.cv[1]
            and self.dispersion[0] <= shape.dispersion <= self.dispersion[1]
        )


@cache
def poisson_bands(*, count: int, rate_per_s: float) -> Bands:
    """Compute the band of the rate of `count` Poisson arrivals, and simulate the bands of CV and dispersion.

    The schedules are drawn here, independent of the code under test.
    """
    rng = np.random.default_rng(SEED)
    figures = []
    for _ in range(SCHEDULES):
        seconds = np.cumsum(rng.exponential(1 / rate_per_s, count))
        shape = shape_of(np.round(seconds * 1e9).astype(np.int64))
        assert shape is not None
        figures.append((shape.cv, shape.dispersion))
    low, high = np.quantile(np.array(figures), [(1 - SHARE) / 2, (1 + SHARE) / 2], axis=0)
    cv, dispersion = ((float(lower), float(upper)) for lower, upper in zip(low, high, strict=True))
    sigmas = SIGMAS * rate_per_s / (count - 1) ** 0.5
    return Bands(rate_per_s=(rate_per_s - sigmas, rate_per_s + sigmas), cv=cv, dispersion=dispersion)
