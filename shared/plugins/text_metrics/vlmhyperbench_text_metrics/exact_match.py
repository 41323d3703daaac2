"""Exact match: the share of answers that equal one of their references after normalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from operator import eq, ne
from typing import ClassVar

import numpy as np

from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.normalise import NormaliserV1
from vlmhyperbench_text_metrics.pairs import FloatArray, Pairs, lay_out, share

_CHUNK = 1 << 13
"""Number of pairs that are normalised at a time, so that copies stay in the processor's cache."""


class ExactMatch:
    """The answer equals a reference after normalisation.

    ## Formula

    1 if the normalised prediction equals any normalised reference, else 0.

    ## A group

    The mean of its samples' values; the additive statistics are `correct` and `count`.

    ## Bad input

    A sample without a reference is unscored (`no_reference`), never 0. Two texts of white space alone are equal. Lone
    surrogates, control characters and text that says NaN are text like any other.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | SQuAD's evaluation script | lower case in place of casefold, ASCII punctuation and the articles a, an, the
        removed: `the cat.` equals `cat` there |
    | google-research/pix2struct, `exact_match` | nothing is normalised: case counts |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "v1": (
            "NFKC, casefold, white space collapsed and stripped. Options, recorded in the description: "
            "`strip_punct` (punctuation off both ends of a word), `yo_fold` (ё as е), `words_to_digits` (zero "
            "to ten, English and Russian)."
        ),
    }

    def __init__(
        self,
        *,
        profile: str = "v1",
        strip_punct: bool = False,
        yo_fold: bool = False,
        words_to_digits: bool = False,
    ) -> None:
        self._profile = check_profile("exact_match", profile, self.profiles)
        self._normaliser = NormaliserV1(strip_punct=strip_punct, yo_fold=yo_fold, words_to_digits=words_to_digits)

    @property
    def description(self) -> MetricDescription:
        return MetricDescription(
            name="exact_match",
            profile=self._profile,
            version="1.0.0",
            title="Exact match",
            kind="text",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="mean",
            proportion=True,
            normaliser=str(self._normaliser),
            formula="1 if normalise(prediction) is in {normalise(r) for r in references}, else 0",
            source="Rajpurkar et al. 2016, arXiv:1606.05250, section 6.1, with normaliser v1 in place of SQuAD's",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,  # noqa: ARG002 (part of the contract)
    ) -> Measures:
        pairs = lay_out(predictions, references)
        equal = self._equal(pairs)
        correct = equal[pairs.best(equal)]
        return pairs.measures(correct, {"correct": correct})

    def compared(self, texts: Sequence[str]) -> list[str]:
        return self._normaliser.bulk(texts)

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return share(sums, "correct")

    def _equal(self, pairs: Pairs) -> FloatArray:
        """Compare all pairs; identical texts are not normalised. Shape: (pairs,)."""
        differ = bytearray(map(ne, pairs.predictions, pairs.references))
        equal = ~np.frombuffer(differ, dtype=np.bool_)
        indexes = np.flatnonzero(~equal)
        predicted, true = list(compress(pairs.predictions, differ)), list(compress(pairs.references, differ))
        for first in range(0, len(indexes), _CHUNK):
            part = slice(first, first + _CHUNK)
            same = bytearray(map(eq, self._normaliser.bulk(predicted[part]), self._normaliser.bulk(true[part])))
            equal[indexes[part]] = np.frombuffer(same, dtype=np.bool_)
        return equal.astype(np.float64)
