"""ROUGE: F-measure of shared n-grams or of the longest common subsequence of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version

import numpy as np
from rapidfuzz.distance import LCSseq

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.pairs import lay_out, share

PROFILES = ("rougeL", "rouge1", "rouge2")

STEMMED_CHARACTERS = 100
"""The stemmer takes a word apart recursively: what is longer is no word, and stays as it is."""


class Rouge:
    """F-measure of ROUGE-1, ROUGE-2 or ROUGE-L as rouge-score computes it; the best of several references counts.

    Words are rouge-score's: runs of a-z and 0-9 in the lower-cased text. Text in other scripts therefore has none, and
    scores 0. With `stemmer` words of more than three letters are reduced by NLTK's Porter stemmer.
    """

    def __init__(self, *, profile: str = "rougeL", stemmer: bool = False) -> None:
        self._profile = check_profile("rouge", profile, PROFILES)
        if not isinstance(stemmer, bool):
            raise InvalidInput("The stemmer of rouge is neither true nor false.", cure="Write stemmer: true.")
        self._is_stemmed = stemmer
        self._tokenize = _tokenizer(is_stemmed=stemmer)

    @property
    def description(self) -> MetricDescription:
        counted = "longest common subsequence" if self._profile == "rougeL" else f"shared {self._profile[-1]}-grams"
        stemmed = f", Porter stemmer on words of 4 to {STEMMED_CHARACTERS} letters" if self._is_stemmed else ""
        return MetricDescription(
            name="rouge",
            profile=self._profile,
            version="1.0.0",
            title=f"ROUGE-{self._profile[-1]}",
            kind="text",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="mean",
            proportion=False,
            normaliser=f"lower case; words are runs of a-z and 0-9{stemmed}",
            formula=f"max over references of 2PR / (P + R), P and R = {counted} / those of prediction and reference; "
            "0 where a text has none",
            source=f"Lin 2004, aclanthology:W04-1013, sections 2 and 3.1; rouge-score {version('rouge-score')}",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,  # noqa: ARG002 (part of the contract)
    ) -> Measures:
        pairs = lay_out(predictions, references)
        scores = np.zeros(len(pairs.predictions))
        for pair, (prediction, reference) in enumerate(zip(pairs.predictions, pairs.references, strict=True)):
            scores[pair] = self._score(self._tokenize(prediction), self._tokenize(reference))
        best = scores[pairs.best(scores)]
        return pairs.measures(best, {"fmeasure": best})

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return share(sums, "fmeasure")

    def _score(self, predicted: list[str], true: list[str]) -> float:
        if self._profile == "rougeL":
            return _fmeasure(LCSseq.similarity(predicted, true), len(predicted), len(true))
        order = int(self._profile[-1])
        own, other = _ngrams(predicted, order), _ngrams(true, order)
        return _fmeasure((own & other).total(), own.total(), other.total())


def _ngrams(words: list[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[first:] for first in range(order)), strict=False))


def _fmeasure(shared: int, predicted: int, true: int) -> float:
    if shared == 0:
        return 0.0
    precision, recall = shared / predicted, shared / true
    return min(2 * precision * recall / (precision + recall), 1.0)


def _tokenizer(*, is_stemmed: bool) -> Callable[[str], list[str]]:
    """Open rouge-score at its tokenizer; its scorer would import all of NLTK, which takes seconds."""
    from rouge_score.tokenize import tokenize

    stemmer = _Stemmer() if is_stemmed else None

    def words(text: str) -> list[str]:
        found: list[str] = tokenize(text, stemmer)
        return found

    return words


class _Stemmer:
    """NLTK's Porter stemmer, asked once for each word."""

    def __init__(self) -> None:
        from nltk.stem.porter import PorterStemmer

        self._stem = lru_cache(maxsize=1 << 16)(PorterStemmer().stem)

    def stem(self, word: str) -> str:
        return str(self._stem(word)) if len(word) <= STEMMED_CHARACTERS else word
