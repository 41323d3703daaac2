"""WER: word edits per reference word, pooled over a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.edit_rates import measure_edits, pooled_rate
from vlmhyperbench_text_metrics.pairs import lay_out
from vlmhyperbench_text_metrics.words import divide_words

PROFILES = ("jiwer",)

_CHUNK_CHARS = 1 << 16
"""Less text than where nothing is divided: lists of words that are soon gone cost the garbage collector nothing."""


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
        return measure_edits(lay_out(predictions, references), divide_words, chunk_chars=_CHUNK_CHARS)

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return pooled_rate(sums)
