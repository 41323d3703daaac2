"""A run's answers paired with those of its baseline, as far as they have come: what a stop rule decides by.

Answers are paired in the random order in which they are asked, without gaps: one that came early waits for those
before it, since fast answers may be the easier ones. Pure; how often somebody looks changes no decision.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from typing import Literal

import numpy as np

from vlmhyperbench.analysis.sequential import (
    Decision,
    FloatArray,
    PairedSequence,
    Rule,
    decide,
    gains,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairing:
    """The gains of a run over its baseline so far; `extended` gives the pairing after further answers.

    An answer's ordinal is repeat · samples + sample.
    """

    rule: Rule
    alpha: float
    """Probability of ever deciding what is not so."""
    low: float
    """Smallest gain that the metric can show."""
    high: float
    """Largest."""
    direction: Literal["higher", "lower"]
    """Which end of the metric's scale is better."""
    keys: Sequence[str]
    """Of each sample."""
    repeats: int
    """Answers to each sample."""
    order: Sequence[int]
    """Ordinals as they are asked: `request_order` of the keys."""
    unreadable: frozenset[int] = frozenset()
    """Samples that cannot be asked, and have no row before the inference ends."""
    baseline: Mapping[tuple[str, int], float | None] = field(default_factory=dict)
    """(key, repeat) → what the baseline scored; None or absent is unscored."""
    paired: FloatArray = field(default_factory=lambda: np.empty(0))
    """Gain of each answer that is paired, in their order; NaN is unscored. Shape: (answers,)."""

    @property
    def cursor(self) -> int:
        """How many answers of the order are paired: the next one is `order[cursor]`."""
        return len(self.paired)

    @property
    def units(self) -> int:
        """Samples that are paired, each with all its repeats."""
        return self.cursor // self.repeats

    @property
    def ahead(self) -> Iterator[int]:
        """Ordinals that are not paired yet, in their order."""
        return islice(self.order, self.cursor, None)

    @property
    def sequence(self) -> PairedSequence:
        """The confidence sequence of the gains, whole samples as its units."""
        sequence = PairedSequence(
            alpha=self.alpha,
            low=self.low,
            high=self.high,
            total_units=len(self.keys),
            largest_unit=self.repeats,
        )
        sequence.update(self.paired, [self.repeats] * self.units)
        return sequence

    @property
    def decision(self) -> Decision | None:
        """What the rule says for certain, or None. It takes a second and more of 50,000 samples."""
        return decide(self.rule, self.sequence)

    def is_known(self, ordinal: int, present: Collection[int]) -> bool:
        """Say whether an answer has its row, or will never be asked."""
        return ordinal in present or ordinal % len(self.keys) in self.unreadable

    def ready(self, present: Collection[int]) -> list[int]:
        """Return the next ordinals in order without a gap, whole samples only.

        Args:
            present: ordinals that have a row; those before the cursor do not matter.
        """
        found = list(takewhile(lambda ordinal: self.is_known(ordinal, present), self.ahead))
        return found[: len(found) // self.repeats * self.repeats]

    def extended(self, ready: Sequence[int], values: Mapping[tuple[str, int], float | None]) -> Pairing:
        """Pair what `ready` returned.

        Args:
            ready: the next ordinals, whole samples.
            values: (key, repeat) → what the run scored; None or absent is unscored.
        """
        places = [(self.keys[ordinal % len(self.keys)], ordinal // len(self.keys)) for ordinal in ready]
        found = gains(
            [self.baseline.get(place) for place in places],
            [values.get(place) for place in places],
            direction=self.direction,
        )
        return replace(self, paired=np.concatenate([self.paired, found]))
