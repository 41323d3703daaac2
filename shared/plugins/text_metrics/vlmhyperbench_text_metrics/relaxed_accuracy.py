"""Relaxed accuracy: numbers may be five per cent off, everything else must be the same text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.pairs import lay_out, share

TOLERANCE = 0.05

_YEAR = re.compile(r"[12][0-9]{3}")


class RelaxedAccuracy:
    """Numbers may be five per cent off, everything else must be the same text.

    ## Formula

    Where both are numbers: 1 if |prediction − reference| / |reference| ≤ 0.05. Else 1 if they are the same text but for
    case. Any reference may match.

    ## A group

    The mean of its samples' values; the additive statistics are `correct` and `count`.

    ## Bad input

    A sample without a reference is unscored (`no_reference`), never 0. `nan` and `inf` are numbers to `float`, and
    within no distance of anything, not even themselves: 0, as in the script. `1,000` is no number.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | pix2struct | none |
    | 2010 for 2009 | right under `pix2struct` (0.05 % off), wrong under `strict` |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "pix2struct": (
            "`relaxed_correctness` of google-research/pix2struct. A number is what Python's `float` reads; a "
            "trailing per cent sign divides by 100. A reference of zero is compared as text."
        ),
        "strict": (
            "references written as a year (an integer 1000 to 2999) must be the same text as well. What "
            "`strict` accepts, `pix2struct` accepts too."
        ),
    }

    def __init__(self, *, profile: str = "pix2struct") -> None:
        self._profile = check_profile("relaxed_accuracy", profile, self.profiles)

    @property
    def description(self) -> MetricDescription:
        exact = "zero" if self._profile == "pix2struct" else "zero and years (integers 1000 to 2999)"
        return MetricDescription(
            name="relaxed_accuracy",
            profile=self._profile,
            version="1.0.0",
            title="Relaxed accuracy",
            kind="text",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="mean",
            proportion=True,
            normaliser="lower case; numbers with a percent sign are divided by 100",
            formula=f"1 if |prediction - reference| / |reference| <= {TOLERANCE} where both are numbers, else 1 if "
            f"they are the same text; {exact} must be the same text; any reference may match",
            source="Methani et al. 2020, arXiv:1909.00997; Masry et al. 2022, arXiv:2203.10244, section 5.1; "
            "relaxed_correctness of google-research/pix2struct",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,  # noqa: ARG002 (part of the contract)
    ) -> Measures:
        pairs = lay_out(predictions, references)
        is_correct = self._is_right if self._profile == "strict" else _is_close
        right = np.array(list(map(is_correct, pairs.predictions, pairs.references)), dtype=np.float64)
        correct = right[pairs.best(right)]
        return pairs.measures(correct, {"correct": correct})

    def compared(self, texts: Sequence[str]) -> list[str]:
        return list(map(self._shown, texts))

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return share(sums, "correct")

    def _shown(self, text: str) -> str:
        """Return the number that a text is read as; zero, and in `strict` a year, are compared as texts."""
        if self._profile == "strict" and _YEAR.fullmatch(text.strip()):
            return text.strip()
        return str(_number(text) or text.lower())

    def _is_right(self, prediction: str, reference: str) -> bool:
        if _YEAR.fullmatch(reference.strip()):
            return prediction.strip() == reference.strip()
        return _is_close(prediction, reference)


def _is_close(prediction: str, reference: str) -> bool:
    predicted, true = _number(prediction), _number(reference)
    if predicted is None or not true:
        return prediction.lower() == reference.lower()
    return abs(predicted - true) / abs(true) <= TOLERANCE


def _number(text: str) -> float | None:
    """Parse a number; None if the text is none."""
    try:
        return float(text.rstrip("%")) / 100.0 if text.endswith("%") else float(text)
    except ValueError:
        return None
