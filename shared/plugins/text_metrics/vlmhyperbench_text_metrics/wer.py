"""WER: word edits per reference word, pooled over a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jiwer

from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.edit_rates import measure_edits, pooled_rate
from vlmhyperbench_text_metrics.pairs import lay_out
from vlmhyperbench_text_metrics.profiles import check_profile

PROFILES = ("jiwer",)


class Wer:
    """Word error rate as jiwer defines it, unclipped; words are what its default transform makes of a text."""

    def __init__(self, *, profile: str = "jiwer") -> None:
        self._profile = check_profile("wer", profile, PROFILES)

    @property
    def description(self) -> MetricDescription:
        return MetricDescription(
            name="wer",
            profile=self._profile,
            version="1.0.0",
            title="Word error rate",
            kind="text",
            unit="1",
            range=(0.0, None),
            direction="lower",
            aggregation="pooled",
            proportion=False,
            normaliser="none; words are divided by white space",
            formula="sum of word edits / sum of reference words; an empty reference: insertions / 1",
            source="jiwer 4, process_words with wer_default",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,  # noqa: ARG002 (part of the contract)
    ) -> Measures:
        pairs = lay_out(predictions, references)
        vocabulary: dict[str, int] = {}
        return measure_edits(pairs, _words(pairs.predictions, vocabulary), _words(pairs.references, vocabulary))

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return pooled_rate(sums)


def _words(texts: list[str], vocabulary: dict[str, int]) -> list[list[int]]:
    """Divide texts into words as jiwer does, each word as its number in the growing vocabulary."""
    if not texts:
        return []
    divided: list[list[str]] = jiwer.wer_default(texts)
    return [[vocabulary.setdefault(word, len(vocabulary)) for word in words] for words in divided]
