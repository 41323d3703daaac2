"""WER: word edits per reference word, pooled over a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.edit_rates import measure_edits, pooled_rate
from vlmhyperbench_text_metrics.pairs import lay_out
from vlmhyperbench_text_metrics.words import divide_words

_CHUNK_CHARS = 1 << 16
"""Smaller than for characters: short-lived lists of words are cheap for the garbage collector."""


class Wer:
    """Word errors per word of the reference.

    ## Formula

    word edits (insertions, deletions, substitutions) / words of the reference. An empty reference: 0 if the prediction
    is empty too, else the number of insertions over 1.

    The value is never clipped.

    ## A group

    Pooled: Σ edits / Σ reference words, from the statistics `edits` and `length`; over 1 where every reference is
    empty. This is not the mean of the samples' rates: long references weigh more. Of several references the one with
    the lowest rate counts, the first among equals.

    ## Bad input

    A sample without a reference is unscored (`no_reference`), never 0. A text of white space alone has no words.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | jiwer | none for one reference; it takes no more than one |
    | division by `str.split` | tabs and line breaks divide words |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "jiwer": (
            "what jiwer 4 computes with its default transforms. Runs of two or more white-space characters "
            "become a space, the ends are stripped, and spaces divide words. A single tab or line break "
            "inside a text therefore divides nothing: `a\\tb` is one word. Case and punctuation count."
        ),
    }

    def __init__(self, *, profile: str = "jiwer") -> None:
        self._profile = check_profile("wer", profile, self.profiles)

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

    def compared(self, texts: Sequence[str]) -> list[str]:
        return [" ".join(words) for words in divide_words(texts)]

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return pooled_rate(sums)
