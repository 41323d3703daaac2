"""Edit distances of many pairs at once, and the arithmetic that CER and WER share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from operator import ne

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cpdist

from vlmhyperbench_sdk.types import Measures
from vlmhyperbench_text_metrics.pairs import CHUNK_CHARS, IntArray, Pairs, lengths

Units = Sequence[Sequence[str]]
"""Texts as sequences of what is counted: characters or words."""


def distances(
    pairs: Pairs, prepare: Callable[[Sequence[str]], Units], *, chunk_chars: int = CHUNK_CHARS
) -> tuple[IntArray, IntArray, IntArray]:
    """Return edits, length of the prediction and length of the reference, in units. Each of shape (pairs,).

    Args:
        pairs: The pairs; a prediction that is identical to its reference is not split into units.
        prepare: Splits each text into units.
        chunk_chars: Approximate amount of text that is split at a time.
    """
    edits, said_length, true_length = np.zeros((3, len(pairs.predictions)), dtype=np.int64)
    for part in pairs.chunks(chunk_chars):
        predicted, true = pairs.predictions[part], pairs.references[part]
        differ = np.fromiter(map(ne, predicted, true), dtype=np.bool_, count=len(predicted))
        wanted = prepare(true)
        true_length[part] = said_length[part] = lengths(wanted)
        chosen = differ.tolist()
        given = prepare(list(compress(predicted, chosen)))
        indexes = np.flatnonzero(differ) + part.start
        wrong = cpdist(given, list(compress(wanted, chosen)), scorer=Levenshtein.distance, dtype=np.int64, workers=-1)
        edits[indexes], said_length[indexes] = wrong, lengths(given)
    return edits, said_length, true_length


def measure_edits(
    pairs: Pairs, prepare: Callable[[Sequence[str]], Units], *, chunk_chars: int = CHUNK_CHARS
) -> Measures:
    """Score each sample against the reference with the lowest edit rate, the first of equal ones."""
    edits, _, length = distances(pairs, prepare, chunk_chars=chunk_chars)
    rate = edits / np.maximum(length, 1)
    best = pairs.best(-rate)
    return pairs.measures(rate[best], {"edits": edits[best], "length": length[best]})


def pooled_rate(sums: Mapping[str, float]) -> float | None:
    """Return Σ edits / Σ reference length; over 1 if every reference is empty, None without scored samples."""
    if sums.get("count", 0.0) <= 0:
        return None
    length = sums["length"]
    return sums["edits"] / length if length > 1.0 else sums["edits"]
