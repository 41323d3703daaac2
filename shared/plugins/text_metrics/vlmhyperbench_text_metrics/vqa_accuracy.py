"""VQA accuracy: an answer is as right as annotators gave it, three of the others being enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.pairs import NO_REFERENCE, share
from vlmhyperbench_text_metrics.vqa_text import normalise_answer, trim

PROFILES = ("official", "normalized")

ONE_ANNOTATOR = "one_annotator"

_ENOUGH = 3


class VqaAccuracy:
    """Mean over the annotators of min(others who gave the answer / 3, 1); references are the annotators' answers.

    Profile `official`: where all annotators agree to the letter, nothing is normalised, as in the evaluation script of
    VQA v2. Profile `normalized`: answers are always normalised. A sample with one annotator has no others: unscored.
    """

    def __init__(self, *, profile: str = "official") -> None:
        self._profile = check_profile("vqa_accuracy", profile, PROFILES)

    @property
    def description(self) -> MetricDescription:
        when = "unless all annotators agree, then only trimmed" if self._profile == "official" else "always"
        return MetricDescription(
            name="vqa_accuracy",
            profile=self._profile,
            version="1.0.0",
            title="VQA accuracy",
            kind="text",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="mean",
            proportion=False,
            normaliser=f"VQA v2 ({when}): punctuation, lower case, number words, articles, contractions",
            formula="mean over annotators i of min(annotators other than i who gave the answer / 3, 1)",
            source="Antol et al. 2015, arXiv:1505.00468; Goyal et al. 2017, arXiv:1612.00837; "
            "vqaEval.py of GT-Vision-Lab/VQA",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,  # noqa: ARG002 (part of the contract)
    ) -> Measures:
        values = [
            self._value(prediction, answers) if len(answers) > 1 else None
            for prediction, answers in zip(predictions, references, strict=True)
        ]
        reasons = [(None, NO_REFERENCE, ONE_ANNOTATOR)[_missing(answers)] for answers in references]
        scored = np.array([value is not None for value in values], dtype=np.float64).tolist()
        accuracy = [value or 0.0 for value in values]
        return Measures(values=values, reasons=reasons, statistics={"accuracy": accuracy, "count": scored})

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return share(sums, "accuracy")

    def _value(self, prediction: str, answers: Sequence[str]) -> float:
        predicted, true = trim(prediction), list(map(trim, answers))
        if self._profile == "normalized" or len(set(true)) > 1:
            predicted, true = normalise_answer(predicted), list(map(normalise_answer, true))
        return _leave_one_out(true.count(predicted), len(true))


def _missing(answers: Sequence[str]) -> int:
    return {0: 1, 1: 2}.get(len(answers), 0)


def _leave_one_out(matches: int, annotators: int) -> float:
    """Mean of min(matches among the others / 3, 1): for who gave the answer the others hold one match less."""
    same = matches * min((matches - 1) / _ENOUGH, 1.0) if matches else 0.0
    return (same + (annotators - matches) * min(matches / _ENOUGH, 1.0)) / annotators
