"""Compare every text of a list with every text of another; equal texts are compared once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from vlmhyperbench_document_metrics.work import Work

FloatArray = npt.NDArray[np.float64]


def similarities(true: Sequence[str], predicted: Sequence[str], *, at_least: float, work: Work) -> FloatArray:
    """Return 1 − Levenshtein distance / longer length, or 0 below `at_least`. Shape: (true, predicted).

    Two empty texts have the similarity 1.

    Raises:
        TooLarge: the texts are too long.
    """
    own, other = _indexes(true), _indexes(predicted)
    work.count_texts(sum(map(len, own)), sum(map(len, other)))
    # The cutoff is slightly lower than needed, so that rapidfuzz's rounding does not affect the result.
    alike = cdist(
        list(own),
        list(other),
        scorer=Levenshtein.normalized_similarity,
        score_cutoff=at_least - 0.01,
        dtype=np.float64,
    )
    alike[alike < at_least] = 0.0
    return cast("FloatArray", alike[np.ix_([own[text] for text in true], [other[text] for text in predicted])])


def similarity_of_two(true: str, predicted: str, *, at_least: float, work: Work) -> float:
    """Return the similarity of a pair, as `similarities` does.

    Raises:
        TooLarge: the texts are too long.
    """
    work.count_texts(len(true), len(predicted))
    alike = Levenshtein.normalized_similarity(true, predicted, score_cutoff=at_least - 0.01)
    return alike if alike >= at_least else 0.0


def _indexes(texts: Sequence[str]) -> dict[str, int]:
    return {text: index for index, text in enumerate(dict.fromkeys(texts))}
