"""Parity of two runs' answers: which are the same text, and where the others part.

For engines or precisions of one model: greedy answers should be the same, and where they are not, the first difference
says more than the scores, which may not change at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import polars

from vlmhyperbench.analysis.comparison import PAIR_KEY

_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """One answer that is another text in the other run."""

    key: str
    repeat: int
    at_word: int
    """Number, from 1, of the first word that differs."""
    baseline: str
    """What follows the common beginning, cut."""
    other: str
    changes_score: bool
    """Whether the primary metric gives it another value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """How alike the answers of two runs are."""

    pairs: int
    """Answers that both runs have."""
    divergences: tuple[Divergence, ...]
    """In the baseline's order."""

    @property
    def same(self) -> int:
        return self.pairs - len(self.divergences)

    @property
    def rescored(self) -> int:
        """Divergences that change the score."""
        return sum(divergence.changes_score for divergence in self.divergences)

    @property
    def median_word(self) -> float | None:
        """Half of the divergences begin at this word or before."""
        return median(divergence.at_word for divergence in self.divergences) if self.divergences else None


def parity(baseline: polars.DataFrame, other: polars.DataFrame) -> Parity:
    """Compare texts, pair by pair.

    Args:
        baseline: columns `key, repeat, text, value`; rows without a text are left out.
        other: the same.
    """
    columns = [*PAIR_KEY, "text", "value"]
    first, second = (frame.select(columns).filter(polars.col("text").is_not_null()) for frame in (baseline, other))
    pairs = first.join(second, on=list(PAIR_KEY), how="inner", maintain_order="left")
    apart = pairs.filter(polars.col("text") != polars.col("text_right"))
    return Parity(
        pairs=pairs.height,
        divergences=tuple(_divergence(row) for row in apart.iter_rows(named=True)),
    )


def _divergence(row: dict[str, object]) -> Divergence:
    said, other = str(row["text"]), str(row["text_right"])
    shorter = min(len(said), len(other))
    common = next((at for at in range(shorter) if said[at] != other[at]), shorter)
    start = max(said.rfind(" ", 0, common), said.rfind("\n", 0, common)) + 1
    return Divergence(
        key=str(row["key"]),
        repeat=int(str(row["repeat"])),
        at_word=len(said[:start].split()) + 1,
        baseline=_cut(said[start:]),
        other=_cut(other[start:]),
        changes_score=row["value"] != row["value_right"],
    )


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"
