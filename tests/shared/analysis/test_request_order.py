"""The order in which a run with a stop rule asks."""

from __future__ import annotations

from vlmhyperbench.analysis.sequential import random_order, request_order


def test_requests_are_asked_sample_by_sample_in_a_random_order() -> None:
    keys = ["a", "b", "c"]
    samples = random_order(keys, seed=5)
    assert request_order(keys, repeats=1, seed=5) == samples
    asked = request_order(keys, repeats=2, seed=5)
    assert asked[:2] == [samples[0], 3 + samples[0]]
    assert sorted(asked) == list(range(6))
