"""The answers of a run so far, paired with those of its baseline; a stop rule decides by them.

Answers are paired in the random order in which they are asked, without gaps: an answer that arrives early waits for
those before it, since fast answers may be the easier ones. Pure; the number of looks does not change a decision.
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
    """Gains of a run over its baseline so far; `extended` returns the pairing after further answers.

    The ordinal of an answer is repeat · samples + sample.
    """

    rule: Rule
    alpha: float
    """Probability of ever deciding wrongly."""
    low: float
    """Smallest gain that the metric can show."""
    high: float
    """Largest gain that the metric can show."""
    direction: Literal["higher", "lower"]
    """Which end of the metric's scale is better."""
    keys: Sequence[str]
    """Key of each sample."""
    repeats: int
    """Number of answers to each sample."""
    order: Sequence[int]
    """Ordinals in the order in which they are asked: `request_order` of the keys."""
    unreadable: frozenset[int] = frozenset()
    """Samples that cannot be asked; they have no row before the inference ends."""
    baseline: Mapping[tuple[str, int], float | None] = field(default_factory=dict)
    """(key, repeat) → score of the baseline; None or absent where it is unscored."""
    paired: FloatArray = field(default_factory=lambda: np.empty(0))
    """Gain of each paired answer, in order; NaN where it is unscored. Shape: (answers,)."""

    @property
    def cursor(self) -> int:
        """Number of paired answers; the next ordinal is `order[cursor]`."""
        return len(self.paired)

    @property
    def units(self) -> int:
        """Number of paired samples, each with all its repeats."""
        return self.cursor // self.repeats

    @property
    def remaining(self) -> Iterator[int]:
        """Ordinals that are not paired yet, in order."""
        return islice(self.order, self.cursor, None)

    @property
    def sequence(self) -> PairedSequence:
        """The confidence sequence of the gains, with whole samples as units."""
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
        """Decision of the rule, or None while it is uncertain. It takes more than a second for 50,000 samples."""
        return decide(self.rule, self.sequence)

    def is_known(self, ordinal: int, present: Collection[int]) -> bool:
        """Return whether an answer has a row or will never be asked."""
        return ordinal in present or ordinal % len(self.keys) in self.unreadable

    def ready(self, present: Collection[int]) -> list[int]:
        """Return the next ordinals that can be paired: in order, without a gap, whole samples only.

        Args:
            present: Ordinals that have a row; those before the cursor are ignored.
        """
        ordinals = list(takewhile(lambda ordinal: self.is_known(ordinal, present), self.remaining))
        return ordinals[: len(ordinals) // self.repeats * self.repeats]

    def extended(self, ready: Sequence[int], values: Mapping[tuple[str, int], float | None]) -> Pairing:
        """Pair the ordinals that `ready` returned.

        Args:
            ready: Next ordinals, whole samples.
            values: (key, repeat) → score of the run; None or absent where it is unscored.
        """
        pair_keys = [(self.keys[ordinal % len(self.keys)], ordinal // len(self.keys)) for ordinal in ready]
        added = gains(
            [self.baseline.get(pair_key) for pair_key in pair_keys],
            [values.get(pair_key) for pair_key in pair_keys],
            direction=self.direction,
        )
        return replace(self, paired=np.concatenate([self.paired, added]))
