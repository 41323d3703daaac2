"""Parity of two runs' answers: which are the same text, and where the others first differ.

It compares engines or precisions of one model. Greedy answers should be the same; where they are not, the first
difference says more than the scores, which may not change at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import numpy
import polars

from vlmhyperbench.analysis import stats
from vlmhyperbench.analysis.comparison import PAIR_KEY
from vlmhyperbench.analysis.results import Interval

_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """An answer whose text differs in the other run."""

    key: str
    repeat: int
    at_word: int
    """Number of the first word that differs, from 1."""
    baseline: str
    """Text of the baseline from that word on, cut."""
    other: str
    """Text of the other run from that word on, cut."""
    changes_score: bool
    """Whether the primary metric gives the two texts different values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """Result of comparing the texts of two runs."""

    pairs: int
    """Number of answers that both runs have."""
    divergences: tuple[Divergence, ...]
    """In the baseline's order."""
    interval: Interval | None = None
    """Of the share of equal texts, with documents as units; None without pairs."""

    @property
    def same(self) -> int:
        """Number of answers whose texts are equal."""
        return self.pairs - len(self.divergences)

    @property
    def share(self) -> float | None:
        """Share of equal texts; None without pairs."""
        return self.same / self.pairs if self.pairs else None

    @property
    def rescored(self) -> int:
        """Number of divergences that change the score."""
        return sum(divergence.changes_score for divergence in self.divergences)

    @property
    def median_word(self) -> float | None:
        """Median number of the first differing word; None without divergences."""
        return median(divergence.at_word for divergence in self.divergences) if self.divergences else None


def parity(baseline: polars.DataFrame, other: polars.DataFrame) -> Parity:
    """Compare texts, pair by pair.

    Args:
        baseline: Frame with the columns `key, repeat, cluster, text, value`; rows without a text are left out.
        other: Frame with the same columns.
    """
    columns = [*PAIR_KEY, "cluster", "text", "value"]
    first, second = (frame.select(columns).filter(polars.col("text").is_not_null()) for frame in (baseline, other))
    pairs = first.join(second, on=list(PAIR_KEY), how="inner", maintain_order="left")
    differing = pairs.filter(polars.col("text") != polars.col("text_right"))
    return Parity(
        pairs=pairs.height,
        divergences=tuple(_divergence(row) for row in differing.iter_rows(named=True)),
        interval=_interval(pairs),
    )


def _interval(pairs: polars.DataFrame) -> Interval | None:
    """Return the interval of the share of equal texts."""
    if pairs.is_empty():
        return None
    is_same = (pairs["text"] == pairs["text_right"]).to_numpy()
    statistics = numpy.column_stack([is_same, numpy.ones(len(is_same))]).astype(numpy.float64)
    units = stats.by_unit(statistics, pairs["cluster"].to_numpy())
    return stats.proportion_intervals(units, numpy.array([len(units)]), seed=0)[0]


def _divergence(row: dict[str, object]) -> Divergence:
    baseline, other = str(row["text"]), str(row["text_right"])
    shorter = min(len(baseline), len(other))
    common = next((at for at in range(shorter) if baseline[at] != other[at]), shorter)
    start = max(baseline.rfind(" ", 0, common), baseline.rfind("\n", 0, common)) + 1
    return Divergence(
        key=str(row["key"]),
        repeat=int(str(row["repeat"])),
        at_word=len(baseline[:start].split()) + 1,
        baseline=_cut(baseline[start:]),
        other=_cut(other[start:]),
        changes_score=row["value"] != row["value_right"],
    )


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"
