"""Normal and Student distributions against scipy's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from vlmhyperbench.analysis.student import noncentral_upper_tail, upper_quantile, upper_tail

FREEDOMS = (1, 2, 3, 4, 9, 30, 99, 199, 200, 201, 1_000, 4_999, 100_000, math.inf)


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_the_tail_is_that_of_scipy_on_both_sides_of_zero(freedom: float) -> None:
    points = (-40.0, -3.0, -1e-3, 0.0, 0.2, 1.0, 1.96, 3.0, 5.0, 8.0, 40.0)
    found = [upper_tail(t, freedom) for t in points]
    np.testing.assert_allclose(found, stats.t.sf(points, freedom), rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_the_quantile_is_that_of_scipy(freedom: float) -> None:
    tails = (0.5, 0.4, 0.1, 0.05, 0.025, 0.005, 1e-4, 1e-8)
    found = [upper_quantile(tail, freedom) for tail in tails]
    np.testing.assert_allclose(found, stats.t.isf(tails, freedom), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("freedom", [1, 2, 3, 10, 40, 400, 5_000])
def test_the_noncentral_tail_is_that_of_scipy(freedom: float) -> None:
    critical = float(stats.t.ppf(0.975, freedom))
    shifts = [0.0, 0.5, 1.0, 2.0, critical, 1.5 * critical]
    found = [noncentral_upper_tail(critical, freedom, shift) for shift in shifts]
    np.testing.assert_allclose(found, stats.nct.sf(critical, freedom, shifts), rtol=1e-6, atol=1e-9)


def test_the_quantile_of_the_cauchy_distribution_is_known_in_closed_form() -> None:
    assert upper_quantile(0.025, 1) == pytest.approx(math.tan(math.pi * 0.475), rel=1e-13)
