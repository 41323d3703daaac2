"""Edit distances of many pairs at once, and the arithmetic that CER and WER share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cpdist

from vlmhyperbench_sdk.types import Measures
from vlmhyperbench_text_metrics.pairs import IntArray, Pairs, lengths

Units = Sequence[Sequence[str | int]]
"""Texts as sequences of what is counted: characters or words."""


def distances(
    pairs: Pairs, prepare: Callable[[list[str], list[str]], tuple[Units, Units]]
) -> tuple[IntArray, IntArray, IntArray]:
    """Return edits, length of the prediction and length of the reference, in units. Each of shape (pairs,).

    Args:
        pairs: what is compared.
        prepare: makes units of the predictions and references of some pairs.
    """
    edits, said_length, true_length = np.zeros((3, len(pairs.predictions)), dtype=np.int64)
    for part in pairs.chunks():
        said, true = prepare(pairs.predictions[part], pairs.references[part])
        edits[part] = cpdist(said, true, scorer=Levenshtein.distance, dtype=np.int64, workers=-1)
        said_length[part], true_length[part] = lengths(said), lengths(true)
    return edits, said_length, true_length


def measure_edits(pairs: Pairs, prepare: Callable[[list[str], list[str]], tuple[Units, Units]]) -> Measures:
    """Score each sample against the reference that needs the lowest rate of edits, the first among equals."""
    edits, _, length = distances(pairs, prepare)
    rate = edits / np.maximum(length, 1)
    best = pairs.best(-rate)
    return pairs.measures(rate[best], {"edits": edits[best], "length": length[best]})


def pooled_rate(sums: Mapping[str, float]) -> float | None:
    """Σ edits / Σ reference length; over 1 where every reference is empty, None where nothing was scored."""
    if sums.get("count", 0.0) <= 0:
        return None
    length = sums["length"]
    return sums["edits"] / length if length > 1.0 else sums["edits"]
