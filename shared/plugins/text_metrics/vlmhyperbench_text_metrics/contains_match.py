"""Contains match: the share of answers in which one of their references occurs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.judged import measure_right
from vlmhyperbench_text_metrics.pairs import share

FORMULAS = "Handwritten Mathematical Expression Recognition"
"""Type of OCRBench's questions whose answers are LaTeX; its images are of HME100k."""


class ContainsMatch:
    """A reference occurs in the answer.

    ## Formula

    1 if any normalised reference is part of the normalised answer, else 0.

    ## A group

    The mean of its samples' values; the additive statistics are `correct` and `count`. OCRBench's score out of 1,000 is
    1,000 times the mean over all of its questions.

    ## Bad input

    A sample without a reference is unscored (`no_reference`), never 0. A blank reference is part of every text; here it
    matches a blank answer only. An answer that lists everything contains everything, and is right.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | lmms-eval 0.7, `ocrbench` | full-width ASCII is folded first: `１２` contains `12` there and not here |
    | VLMEvalKit, `OCRBench` | none |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "ocrbench": (
            "as the script of OCRBench: lower case, stripped, line breaks become spaces. Where the metadata's "
            f"`question_type` is `{FORMULAS}` or its `dataset` is `HME100k`, case counts and spaces are removed."
        ),
    }

    def __init__(self, *, profile: str = "ocrbench") -> None:
        self._profile = check_profile("contains_match", profile, self.profiles)

    @property
    def description(self) -> MetricDescription:
        return MetricDescription(
            name="contains_match",
            profile=self._profile,
            version="1.0.0",
            title="Contains match",
            kind="text",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="mean",
            proportion=True,
            normaliser="lower case, stripped, line breaks become spaces; of formulas only spaces are removed",
            formula="1 if any normalised reference is part of the normalised answer, else 0",
            source="Liu et al. 2023, arXiv:2305.07895; example.py of Yuliang-Liu/MultimodalOCR",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,
    ) -> Measures:
        return measure_right(predictions, references, metadata, _contains)

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return share(sums, "correct")


def _contains(answer: str, reference: str, metadata: JsonObject) -> bool:
    if not reference.strip():
        return not answer.strip()
    if metadata.get("question_type") == FORMULAS or metadata.get("dataset") == "HME100k":
        return _without_spaces(reference) in _without_spaces(answer)
    return _folded(reference) in _folded(answer)


def _without_spaces(text: str) -> str:
    return text.strip().replace("\n", " ").replace(" ", "")


def _folded(text: str) -> str:
    return text.lower().strip().replace("\n", " ")
