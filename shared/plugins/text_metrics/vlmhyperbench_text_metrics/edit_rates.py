"""The arithmetic that CER and WER share: edits over reference length, per sample and pooled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cpdist

from vlmhyperbench_sdk.types import Measures
from vlmhyperbench_text_metrics.pairs import Pairs, lengths


def measure_edits(pairs: Pairs, said: Sequence[Sequence[str | int]], true: Sequence[Sequence[str | int]]) -> Measures:
    """Score each sample against the reference that needs the lowest rate of edits, the first among equals.

    `said` and `true` are the pairs' texts as sequences of units (characters or words). Shape: (pairs,).
    """
    edits = cpdist(said, true, scorer=Levenshtein.distance, dtype=np.int64)
    length = lengths(true)
    rate = edits / np.maximum(length, 1)
    best = pairs.best(-rate)
    return pairs.measures(rate[best], {"edits": edits[best], "length": length[best]})


def pooled_rate(sums: Mapping[str, float]) -> float | None:
    """Σ edits / Σ reference length; over 1 where every reference is empty, None where nothing was scored."""
    if sums.get("count", 0.0) <= 0:
        return None
    return sums["edits"] / max(sums["length"], 1.0)
