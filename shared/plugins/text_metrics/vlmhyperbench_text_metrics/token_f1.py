"""Token F1: the words that an answer shares with its reference, in any order."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.normalise import NormaliserV1
from vlmhyperbench_text_metrics.pairs import lay_out, share

_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:an?|the)\b")


class TokenF1:
    """Words that the answer shares with a reference, in any order.

    ## Formula

    2PR / (P + R); P = shared words / predicted words, R = shared words / reference words, counted with repetitions;
    best over the references. Both without words: 1; one without: 0.

    ## A group

    The mean of its samples' values; the additive statistics are `f1` and `count`.

    ## Bad input

    A sample without a reference is unscored (`no_reference`), never 0. A text of punctuation or articles alone has no
    words under `squad`.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | SQuAD's script v1.1 | two texts without words score 0; v2.0 gives 1, and so do we |
    | Russian quotes and dashes | `string.punctuation` is ASCII: `«да»` and `да` share no word under `squad`, in the
        script too |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "squad": ("lower case, ASCII punctuation removed, articles a, an, the removed, divided by white space."),
        "v1": "the normaliser of exact_match; articles and punctuation count.",
    }

    def __init__(self, *, profile: str = "squad") -> None:
        self._profile = check_profile("token_f1", profile, self.profiles)
        self._normaliser = NormaliserV1()

    @property
    def description(self) -> MetricDescription:
        squad = "squad: lower case, ASCII punctuation and articles (a, an, the) removed, divided by white space"
        return MetricDescription(
            name="token_f1",
            profile=self._profile,
            version="1.0.0",
            title="Token F1",
            kind="text",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="mean",
            proportion=False,
            normaliser=squad if self._profile == "squad" else str(self._normaliser),
            formula="max over references of 2PR / (P + R), P = shared words / predicted words, "
            "R = shared words / reference words, words counted with repetitions; both without words: 1, one: 0",
            source="Rajpurkar et al. 2016, arXiv:1606.05250, section 6.1; evaluation scripts v1.1 and v2.0 of SQuAD",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,  # noqa: ARG002 (part of the contract)
    ) -> Measures:
        pairs = lay_out(predictions, references)
        predicted, true = self._words(pairs.predictions), self._words(pairs.references)
        scores = np.array([_f1(own, other) for own, other in zip(predicted, true, strict=True)], dtype=np.float64)
        best = scores[pairs.best(scores)]
        return pairs.measures(best, {"f1": best})

    def compared(self, texts: Sequence[str]) -> list[str]:
        return [" ".join(words) for words in self._words(list(texts))]

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return share(sums, "f1")

    def _words(self, texts: list[str]) -> list[list[str]]:
        if self._profile == "v1":
            return [text.split() for text in self._normaliser.bulk(texts)]
        return [_ARTICLE.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split() for text in texts]


def _f1(predicted: list[str], true: list[str]) -> float:
    if not predicted or not true:
        return float(predicted == true)
    shared = (Counter(predicted) & Counter(true)).total()
    if shared == 0:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(true)
    return min(2 * precision * recall / (precision + recall), 1.0)
