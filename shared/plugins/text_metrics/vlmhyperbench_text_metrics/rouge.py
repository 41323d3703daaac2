"""ROUGE: F-measure of shared n-grams or of the longest common subsequence of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version
from typing import ClassVar

import numpy as np
from rapidfuzz.distance import LCSseq

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.pairs import lay_out, share

STEMMED_CHARACTERS = 100
"""Maximum length of words that are stemmed, because the stemmer is recursive; longer words stay unchanged."""


class Rouge:
    """F-measure of shared n-grams or of the longest common subsequence of words.

    ## Formula

    2PR / (P + R); P and R are the shared n-grams (ROUGE-1, ROUGE-2) or the longest common subsequence (ROUGE-L), over
    those of the prediction and of the reference; the best over the references.

    Option `stemmer` (off): NLTK's Porter stemmer on words of more than three letters, as in rouge-score; words above
    100 letters stay as they are.

    Words are rouge-score's: lower-cased runs of a-z and 0-9. **Text in another script has no words and scores 0**: use
    chrF or CER there.

    ## A group

    The mean of its samples' values; the additive statistics are `fmeasure` and `count`.

    ## Bad input

    A sample without a reference is unscored (`no_reference`), never 0. A text without words scores 0, two such texts
    too, as in rouge-score.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | rouge-score | none; its own common subsequence is quadratic in plain Python, ours is rapidfuzz's with the same
        result |
    | rouge-score, `rougeLsum` | divides the text at line breaks first; not offered |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "rougeL": "the longest common subsequence of words.",
        "rouge1": "shared words.",
        "rouge2": "shared pairs of words.",
    }

    def __init__(self, *, profile: str = "rougeL", stemmer: bool = False) -> None:
        self._profile = check_profile("rouge", profile, self.profiles)
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

    def compared(self, texts: Sequence[str]) -> list[str]:
        return [" ".join(self._tokenize(text)) for text in texts]

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
    """Return rouge-score's tokenizer without its scorer, which would import all of NLTK and take seconds."""
    from rouge_score.tokenize import tokenize

    stemmer = _Stemmer() if is_stemmed else None

    def words(text: str) -> list[str]:
        tokens: list[str] = tokenize(text, stemmer)
        return tokens

    return words


class _Stemmer:
    """NLTK's Porter stemmer with a cache."""

    def __init__(self) -> None:
        from nltk.stem.porter import PorterStemmer

        self._stem = lru_cache(maxsize=1 << 16)(PorterStemmer().stem)

    def stem(self, word: str) -> str:
        return str(self._stem(word)) if len(word) <= STEMMED_CHARACTERS else word
