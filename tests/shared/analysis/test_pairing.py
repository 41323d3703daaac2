"""A pairing takes answers in the order in which they are asked, whole samples only, and knows which remain."""

from __future__ import annotations

import math

import pytest

from vlmhyperbench.analysis.pairing import Pairing
from vlmhyperbench.analysis.sequential import PairedSequence, Rule, decide, request_order

KEYS = [f"key-{number}" for number in range(4)]


def _pairing(*, repeats: int = 1, unreadable: frozenset[int] = frozenset(), keys: list[str] = KEYS) -> Pairing:
    return Pairing(
        rule=Rule(kind="worse", margin=0.1),
        alpha=0.05,
        low=-1.0,
        high=1.0,
        direction="higher",
        keys=keys,
        repeats=repeats,
        order=request_order(keys, repeats=repeats, seed=1),
        unreadable=unreadable,
        baseline={(key, repeat): 1.0 for key in keys for repeat in range(repeats)},
    )


def test_an_answer_that_came_early_waits_for_those_before_it() -> None:
    pairing = _pairing()
    first, second, third, _ = pairing.order
    assert pairing.ready({second, third}) == []
    assert pairing.ready({first, third}) == [first]
    assert pairing.ready({first, second, third}) == [first, second, third]


def test_a_sample_waits_for_all_its_repeats() -> None:
    pairing = _pairing(repeats=2)
    first, second, third, *_ = pairing.order
    assert pairing.ready({first}) == []
    assert pairing.ready({first, second, third}) == [first, second]


def test_a_sample_that_cannot_be_asked_delays_no_other() -> None:
    first, second, *_ = request_order(KEYS, repeats=1, seed=1)
    assert _pairing(unreadable=frozenset({first})).ready({second}) == [first, second]


def test_a_pairing_is_extended_into_another_and_stays_itself() -> None:
    before = _pairing(repeats=2)
    ready = before.ready(before.order[:4])
    values = {(KEYS[ordinal % 4], ordinal // 4): 0.25 for ordinal in ready[:3]}
    after = before.extended(ready, values)
    assert (before.cursor, before.units, list(before.remaining)) == (0, 0, list(before.order))
    assert (after.cursor, after.units, list(after.remaining)) == (4, 2, list(before.order[4:]))
    assert after.paired[:3].tolist() == [-0.75] * 3
    assert math.isnan(after.paired[3])  # the fourth answer is unscored
    assert after.ready(()) == []
    assert after.sequence.counts(2) == (4, 1)


def test_the_decision_is_that_of_the_sequence_of_its_gains() -> None:
    keys = [f"key-{number}" for number in range(100)]
    pairing = _pairing(keys=keys)
    ready = pairing.ready(pairing.order[:60])
    pairing = pairing.extended(ready, dict.fromkeys(((key, 0) for key in keys), 0.0))
    sequence = PairedSequence(alpha=0.05, low=-1, high=1, total_units=100)
    sequence.update([-1.0] * 60)
    assert pairing.decision == decide(Rule(kind="worse", margin=0.1), sequence)
    assert pairing.decision is not None
    assert pairing.decision.is_shown


@pytest.mark.parametrize("direction", ["higher", "lower"])
def test_a_gain_is_positive_where_the_run_is_better(direction) -> None:
    from dataclasses import replace

    pairing = replace(_pairing(), direction=direction)
    (first,) = pairing.ready(pairing.order[:1])
    gain = pairing.extended([first], {(KEYS[first], 0): 0.0}).paired[0]
    assert gain == (-1.0 if direction == "higher" else 1.0)
