"""Exact match: the share of answers that equal one of their references after normalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.normalise import NormaliserV1
from vlmhyperbench_text_metrics.pairs import lay_out, share
from vlmhyperbench_text_metrics.profiles import check_profile

PROFILES = ("v1",)


class ExactMatch:
    """1 where the normalised prediction equals any normalised reference, else 0."""

    def __init__(
        self,
        *,
        profile: str = "v1",
        strip_punct: bool = False,
        yo_fold: bool = False,
        words_to_digits: bool = False,
    ) -> None:
        self._profile = check_profile("exact_match", profile, PROFILES)
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
        plain = self._normaliser.bulk(chain(pairs.predictions, pairs.references))
        equal = np.array(
            [plain[said] == plain[true] for said, true in zip(pairs.predictions, pairs.references, strict=True)],
            dtype=np.float64,
        )
        correct = equal[pairs.best(equal)]
        return pairs.measures(correct, {"correct": correct})

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return share(sums, "correct")
