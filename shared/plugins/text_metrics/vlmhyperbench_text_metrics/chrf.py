"""chrF: F-score of character n-grams, corpus chrF of any group from additive n-gram counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version
from typing import ClassVar, Protocol

import numpy as np

from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.pairs import lay_out

"""`chrfpp` is chrF++, because names of profiles contain no plus sign."""

_CHARACTER_ORDER = 6
_WORD_ORDER = {"sacrebleu": 0, "chrfpp": 2}


class Chrf:
    """F-score of character n-grams, as sacrebleu computes it.

    ## Formula

    chrF2: precision and recall of character 1- to 6-grams are averaged over the orders that both texts have (effective
    order), and recall weighs twice as much (β = 2). White space is no character, case counts. The sacrebleu signature
    is the metric's `formula`.

    ## A group

    Pooled: the corpus score from n-gram counts `said_*`, `true_*`, `match_*` of each order; no mean of sentence scores.
    Of several references the one with the highest sentence score counts.

    ## Bad input

    A sample without a reference is unscored (`no_reference`), never 0. An empty answer or reference scores 0, two empty
    texts too: that is sacrebleu's definition. A megabyte takes one to two seconds.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | sacrebleu | none |
    | sacrebleu with `eps_smoothing`, which its documentation says is how chrF++.py, NLTK and Moses smooth | orders that
        a text lacks count with a tiny value in place of being left out |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "sacrebleu": "chrF2, `nw:0`.",
        "chrfpp": ("chrF++, which adds word unigrams and bigrams, `nw:2`. (A profile's name holds no plus sign.)"),
    }

    def __init__(self, *, profile: str = "sacrebleu") -> None:
        self._profile = check_profile("chrf", profile, self.profiles)
        self._words = _WORD_ORDER[profile]
        self._counting = _counting(self._words)
        orders = [f"char_{n}" for n in range(1, _CHARACTER_ORDER + 1)] + [
            f"word_{n}" for n in range(1, self._words + 1)
        ]
        self._columns = [f"{part}_{order}" for order in orders for part in ("said", "true", "match")]

    @property
    def description(self) -> MetricDescription:
        return MetricDescription(
            name="chrf",
            profile=self._profile,
            version="1.0.0",
            title="chrF++" if self._words else "chrF",
            kind="text",
            unit="points",
            range=(0.0, 100.0),
            direction="higher",
            aggregation="pooled",
            proportion=False,
            normaliser="none; white space is no character",
            formula=f"nrefs:var|case:mixed|eff:yes|nc:6|nw:{self._words}|space:no|version:{version('sacrebleu')}",
            source="Popović 2015, doi:10.18653/v1/W15-3049; 2017, doi:10.18653/v1/W17-4770; "
            "sacrebleu (Post 2018, arXiv:1804.08771)",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,  # noqa: ARG002 (part of the contract)
    ) -> Measures:
        pairs = lay_out(predictions, references)
        counts = [self._counting.statistics(predictions[row], references[row]) for row in pairs.rows.tolist()]
        values = np.array([self._counting.score(own) for own in counts], dtype=np.float64)
        table = np.array(counts, dtype=np.float64).reshape(len(counts), len(self._columns))
        return pairs.measures(values, {name: table[:, no] for no, name in enumerate(self._columns)})

    def compared(self, texts: Sequence[str]) -> list[str]:
        return [(" " if self._words else "").join(text.split()) for text in texts]

    def combine(self, sums: Mapping[str, float]) -> float | None:
        if sums.get("count", 0.0) <= 0:
            return None
        return self._counting.score([round(sums[name]) for name in self._columns])


class _Counting(Protocol):
    def statistics(self, prediction: str, references: Sequence[str]) -> list[int]:
        """Number of n-grams of the prediction, of the best reference, and shared, for each order."""
        ...

    def score(self, statistics: Sequence[int]) -> float:
        """Compute the score in points."""
        ...


@lru_cache
def _counting(word_order: int) -> _Counting:
    """Return sacrebleu's counter of n-grams, imported late because the import takes most of a second."""
    from sacrebleu.metrics.chrf import CHRF

    class Counting(CHRF):
        def statistics(self, prediction: str, references: Sequence[str]) -> list[int]:
            own = self._extract_reference_info([self._preprocess_segment(text) for text in references])
            return self._compute_segment_statistics(self._preprocess_segment(prediction), own)

        def score(self, statistics: Sequence[int]) -> float:
            return min(self._compute_f_score(list(statistics)), 100.0)

    return Counting(word_order=word_order)
