"""What was said instead of what: counts of pairs of labels, small enough to be looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

MAX_LABELS = 20
OTHER = "other"
UNPARSED = "__unparsed__"
"""What was said is no label that is ever right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """Counts by right label and by said label."""

    labels: tuple[str, ...]
    """Labels that are right somewhere, the most frequent first; `other`, where it is needed, is the last."""
    said: tuple[str, ...]
    """The same, and `__unparsed__` where it was said."""
    counts: Mapping[tuple[str, str], int]
    """(right, said) → answers; a pair that never occurred is missing."""
    pooled: int
    """How many labels `other` stands for."""

    def total(self, label: str) -> int:
        """How many answers should have been this label."""
        return sum(count for (right, _), count in self.counts.items() if right == label)


def confusion_of(counts: Mapping[tuple[str, str], int], *, most: int = MAX_LABELS) -> Confusion:
    """Keep at most `most` labels, those that are right or said most often; pool the rest as `other`.

    Labels of equal frequency are taken in the order of their names. A label that is itself called `other` is pooled
    with the rest where there is one. What is said but never right counts as `__unparsed__`.
    """
    known = {right for right, _ in counts}
    often: Counter[str] = Counter()
    for (right, said), count in counts.items():
        often[right] += count
        if said in known:
            often[said] += count
    ordered = sorted(known, key=lambda label: (-often[label], label))
    kept = ordered if len(ordered) <= most else [label for label in ordered if label != OTHER][: most - 1]
    shown = {label: label if label in kept else OTHER for label in ordered}
    found: Counter[tuple[str, str]] = Counter()
    for (right, said), count in counts.items():
        found[shown[right], shown.get(said, UNPARSED)] += count
    rest = len(ordered) - len(kept)
    labels = (*kept, *([OTHER] if rest else []))
    is_unparsed = any(said == UNPARSED for _, said in found)
    return Confusion(
        labels=labels,
        said=(*labels, *([UNPARSED] if is_unparsed else [])),
        counts=dict(sorted(found.items())),
        pooled=rest,
    )
