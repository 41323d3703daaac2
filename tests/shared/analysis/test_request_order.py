"""The order in which a run with a stop rule asks."""

from __future__ import annotations

from collections import Counter

from scipy import stats

from vlmhyperbench.analysis.sequential import random_order, request_order


def test_requests_are_asked_sample_by_sample_in_a_random_order() -> None:
    keys = ["a", "b", "c"]
    samples = random_order(keys, seed=5)
    assert request_order(keys, repeats=1, seed=5) == samples
    asked = request_order(keys, repeats=2, seed=5)
    assert asked[:2] == [samples[0], 3 + samples[0]]
    assert sorted(asked) == list(range(6))


def test_the_random_order_keeps_samples_of_one_document_together_in_their_own_order() -> None:
    clusters = ["a", "b", "a", "c", "b", "a"]
    orders = {tuple(random_order(clusters, seed=seed)) for seed in range(100)}
    blocks = {"a": "025", "b": "14", "c": "3"}
    assert {"".join(map(str, order)) for order in orders} == {
        blocks[first] + blocks[second] + blocks[third]
        for first in blocks
        for second in blocks
        for third in blocks
        if len({first, second, third}) == 3
    }


def test_the_random_order_does_not_depend_on_the_order_of_the_dataset() -> None:
    names = [str(number) for number in range(50)]
    backwards = names[::-1]
    order = [names[index] for index in random_order(names, seed=3)]
    assert [backwards[index] for index in random_order(backwards, seed=3)] == order
    assert order[:3] == ["22", "5", "13"]


def test_every_random_order_is_as_likely_as_any_other() -> None:
    result = Counter(tuple(random_order("abcd", seed=seed)) for seed in range(6000))
    assert len(result) == 24
    assert stats.chisquare(list(result.values())).pvalue > 0.001
