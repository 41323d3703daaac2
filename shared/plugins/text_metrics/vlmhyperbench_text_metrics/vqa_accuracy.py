"""VQA accuracy: the share of annotators who gave the answer, where three others are enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.pairs import NO_REFERENCE, share
from vlmhyperbench_text_metrics.vqa_text import lower_tokens, normalise_answer, trim

ONE_ANNOTATOR = "one_annotator"

_ENOUGH = 3


class VqaAccuracy:
    """Agreement of an answer with annotators; the references of a sample are its annotators' answers.

    ## Formula

    Mean over the annotators i of min(annotators other than i who gave the answer / 3, 1).

    Normalising: a punctuation mark disappears if it stands beside a space somewhere in the answer, or if there is a
    comma between digits, else it becomes a space; periods go unless a digit follows; lower case; number words none and
    zero to ten become digits; a, an, the go; contractions get a missing apostrophe back. The script takes out at most
    32 periods (a flag stands where a count is expected); so do we.

    ## A group

    The mean of its samples' values; the additive statistics are `accuracy` and `count`.

    ## Bad input

    A sample without a reference is unscored (`no_reference`), never 0. A sample with one annotator is unscored
    (`one_annotator`): there is nobody else to agree with. With two or three annotators the highest possible value is
    1/3 or 2/3.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | vqaEval.py | reports per cent rounded to two places; one annotator gives 0 |
    | its earlier revision (commit 07aecec) | the prediction was always normalised, the annotators' answers only where
        they disagree, without articles and numbers |
    | min(matches / 3, 1) over all annotators at once | more for 1 to 3 matches: 3 of 10 give 1.0 there and 0.9 here |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "official": (
            "vqaEval.py of GT-Vision-Lab/VQA. Where all annotators agree to the letter, answer and references "
            "are only trimmed; else both are normalised."
        ),
        "normalized": "always normalised.",
        "textvqa": (
            "always normalised, after commas, question marks and upper case are removed and a possessive `'s` is split "
            "off, as M4CTextVQAEvaluator of facebookresearch/mmf does for TextVQA."
        ),
    }

    def __init__(self, *, profile: str = "official") -> None:
        self._profile = check_profile("vqa_accuracy", profile, self.profiles)

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

    def compared(self, texts: Sequence[str]) -> list[str]:
        trimmed = [trim(lower_tokens(text) if self._profile == "textvqa" else text) for text in texts]
        if self._profile != "official" or len(set(trimmed[1:])) > 1:
            return list(map(normalise_answer, trimmed))
        return trimmed

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return share(sums, "accuracy")

    def _value(self, prediction: str, answers: Sequence[str]) -> float:
        predicted, *true = self.compared([prediction, *answers])
        return _leave_one_out(true.count(predicted), len(true))


def _missing(answers: Sequence[str]) -> int:
    return {0: 1, 1: 2}.get(len(answers), 0)


def _leave_one_out(matches: int, annotators: int) -> float:
    """Return the mean of min(matches among the others / 3, 1); annotators with this answer have one match less."""
    same = matches * min((matches - 1) / _ENOUGH, 1.0) if matches else 0.0
    return (same + (annotators - matches) * min(matches / _ENOUGH, 1.0)) / annotators
