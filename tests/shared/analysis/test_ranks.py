"""Ranks over resamples: seeded, paired by document, with ties and undefined values."""

from __future__ import annotations

import numpy as np
import pytest

from vlmhyperbench.analysis.ranks import rank_spread
from vlmhyperbench.analysis.stats import FloatArray, mean_of


def _run(*values: float) -> FloatArray:
    """One answer per document."""
    return np.column_stack([values, np.ones(len(values))])


def test_a_run_that_is_better_on_every_document_is_always_first() -> None:
    best, other = rank_spread([_run(0.9, 0.4, 0.7), _run(0.8, 0.3, 0.6)], mean_of, direction="higher", seed=0) or []
    assert (best.rank, best.low, best.high, best.shares) == (1, 1, 1, (1.0, 0.0))
    assert (other.rank, other.low, other.high, other.shares) == (2, 2, 2, (0.0, 1.0))


def test_lower_is_better_where_the_metric_declares_it() -> None:
    runs = [_run(0.9, 0.4, 0.7), _run(0.8, 0.3, 0.6)]
    assert [spread.rank for spread in rank_spread(runs, mean_of, direction="lower", seed=0) or []] == [2, 1]


def test_equal_runs_share_the_better_rank() -> None:
    equal = rank_spread([_run(1, 0, 1), _run(1, 1, 0), _run(0, 0, 0)], mean_of, direction="higher", seed=0) or []
    assert [spread.rank for spread in equal] == [1, 1, 3]
    twins = rank_spread([_run(0.1, 0.2), _run(0.1, 0.2)], mean_of, direction="higher", seed=0) or []
    assert [spread.shares for spread in twins] == [(1.0, 0.0), (1.0, 0.0)]


def test_two_runs_that_win_on_one_document_each_have_both_ranks() -> None:
    # Of the four resamples of two documents, one has only the first, one only the second, and two have both.
    first, second = rank_spread([_run(1, 0), _run(0, 1)], mean_of, direction="higher", seed=1, resamples=4000) or []
    assert first.shares[0] == pytest.approx(0.75, abs=0.03)
    assert second.shares[0] == pytest.approx(0.75, abs=0.03)
    assert (first.low, first.high) == (1, 2)
    for spread in (first, second):
        assert sum(spread.shares) == pytest.approx(1.0)


def test_the_same_seed_gives_the_same_spread_in_batches_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [_run(*np.linspace(0, 1, 50)), _run(*np.linspace(1, 0.1, 50))]
    once = rank_spread(runs, mean_of, direction="higher", seed=7)
    monkeypatch.setattr("vlmhyperbench.analysis.ranks._BATCH_NUMBERS", 333)
    assert rank_spread(runs, mean_of, direction="higher", seed=7) == once
    assert rank_spread(runs, mean_of, direction="higher", seed=8) != once


def test_too_few_runs_or_documents_have_no_spread() -> None:
    assert rank_spread([_run(1, 0)], mean_of, direction="higher", seed=0) is None
    assert rank_spread([_run(1), _run(0)], mean_of, direction="higher", seed=0) is None


def test_an_undefined_value_gives_no_rank_and_an_undefined_resample_does_not_count() -> None:
    empty = np.zeros((2, 2))
    assert rank_spread([_run(1, 0), empty], mean_of, direction="higher", seed=0) is None
    half = np.array([[1.0, 1.0], [0.0, 0.0]])
    result = rank_spread([_run(1, 0), half], mean_of, direction="higher", seed=0) or []
    assert [spread.rank for spread in result] == [2, 1]
    assert [sum(spread.shares) for spread in result] == [pytest.approx(1.0)] * 2
    # One resample, which draws the document without a value twice in every fourth case.
    once = [rank_spread([_run(1, 0), half], mean_of, direction="higher", seed=seed, resamples=1) for seed in range(20)]
    assert 1 <= once.count(None) <= 10
