"""Calibration: bins, expected calibration error and Brier score of small cases."""

from __future__ import annotations

import numpy as np
import pytest

from vlmhyperbench.analysis.calibration import calibration


def test_a_bin_has_its_confidence_and_its_share_of_right_answers() -> None:
    result = calibration(
        np.array([0.6, 0.6, 1.0, 1.0, np.nan]), np.array([True, False, True, True, False]), ["a", "b", "c", "d", "e"]
    )
    assert result is not None
    assert [(part.low, part.high, part.n, part.confidence, part.right) for part in result.bins] == [
        (0.5, 0.6, 2, 0.6, 0.5),
        (0.9, 1.0, 2, 1.0, 1.0),
    ]
    assert (result.n, result.mean_confidence, result.right) == (4, 0.8, 0.75)
    assert result.ece == pytest.approx(0.5 * 0.1)
    assert result.brier == pytest.approx((0.16 + 0.36) / 4)
    assert result.brier_interval is not None
    assert result.bins[0].interval is not None
    assert (result.bins[0].interval.method, result.bins[0].interval.units) == ("wilson", 2)


def test_confidences_that_are_always_right_have_no_error() -> None:
    result = calibration(np.array([1.0, 0.0]), np.array([True, False]), ["a", "b"])
    assert result is not None
    assert (result.ece, result.brier, result.brier_interval) == (0, 0, None)


def test_without_a_confidence_there_is_no_calibration() -> None:
    assert calibration(np.array([np.nan]), np.array([True]), ["a"]) is None


def test_answers_of_one_document_are_one_unit() -> None:
    result = calibration(np.array([0.9, 0.9, 0.9]), np.array([True, True, False]), ["a", "a", "b"])
    assert result is not None
    assert result.brier_interval is not None
    assert result.brier_interval.units == 2
