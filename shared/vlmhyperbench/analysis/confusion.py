"""Confusion matrix of labels, reduced to a size that a person can read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

MAX_LABELS = 20
OTHER = "other"
UNPARSED = "__unparsed__"
"""Column of answers that are no right label of any sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """Counts of answers by right label and by predicted label."""

    labels: tuple[str, ...]
    """Labels that are right for some sample, the most frequent first; `other`, where it is needed, is the last."""
    predicted: tuple[str, ...]
    """The same labels, and `__unparsed__` where it occurs."""
    counts: Mapping[tuple[str, str], int]
    """(right, predicted) → number of answers; a pair that does not occur is missing."""
    pooled: int
    """Number of labels that `other` stands for."""

    def total(self, label: str) -> int:
        """Return the number of answers for which this label is right."""
        return sum(count for (right, _), count in self.counts.items() if right == label)


def confusion_of(counts: Mapping[tuple[str, str], int], *, max_labels: int = MAX_LABELS) -> Confusion:
    """Show at most `max_labels` labels, those that are right or predicted most often, and pool the others as `other`.

    Labels of equal frequency are taken in the order of their names. Where labels are pooled, a label that is itself
    called `other` is pooled with them. A predicted label that is never right counts as `__unparsed__`.
    """
    known = {right for right, _ in counts}
    frequency: Counter[str] = Counter()
    for (right, predicted), count in counts.items():
        frequency[right] += count
        if predicted in known:
            frequency[predicted] += count
    ordered = sorted(known, key=lambda label: (-frequency[label], label))
    is_whole = len(ordered) <= max_labels
    shown = ordered if is_whole else [label for label in ordered if label != OTHER][: max_labels - 1]
    name_of = {label: label if label in shown else OTHER for label in ordered}
    pooled_counts: Counter[tuple[str, str]] = Counter()
    for (right, predicted), count in counts.items():
        pooled_counts[name_of[right], name_of.get(predicted, UNPARSED)] += count
    rest = len(ordered) - len(shown)
    labels = (*shown, *([OTHER] if rest else []))
    has_unparsed = any(predicted == UNPARSED for _, predicted in pooled_counts)
    return Confusion(
        labels=labels,
        predicted=(*labels, *([UNPARSED] if has_unparsed else [])),
        counts=dict(sorted(pooled_counts.items())),
        pooled=rest,
    )
