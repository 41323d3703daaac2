"""Accuracy of a classification: the share of answers that name the class of their sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import eq
from typing import ClassVar

import numpy as np

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.normalise import NormaliserV1
from vlmhyperbench_text_metrics.pairs import lay_out, share


class Accuracy:
    """The answer names the sample's class.

    ## Formula

    samples whose normalised answer is their class / samples.

    ## A group

    The mean of its samples' values; the additive statistics are `correct`, `unparsed` and `count`.

    ## Bad input

    A sample without a reference is unscored (`no_reference`), never 0. An empty answer is wrong even where the
    reference is empty.
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "v1": (
            "the normaliser of exact_match. With the option `labels` an answer that is none of them is "
            "`unparsed`, and wrong; without, only an empty answer is."
        ),
    }

    def __init__(self, *, profile: str = "v1", labels: Sequence[str] = ()) -> None:
        self._profile = check_profile("accuracy", profile, self.profiles)
        if isinstance(labels, str) or not all(isinstance(label, str) and label.strip() for label in labels):
            raise InvalidInput("The labels of accuracy are no list of non-empty texts.", cure="Write labels: [a, b].")
        self._normaliser = NormaliserV1()
        self._labels = frozenset(map(self._normaliser, labels))

    @property
    def description(self) -> MetricDescription:
        return MetricDescription(
            name="accuracy",
            profile=self._profile,
            version="1.0.0",
            title="Accuracy",
            kind="classification",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="mean",
            proportion=True,
            normaliser=str(self._normaliser),
            formula="samples whose answer is their class / samples; an unparsed answer is wrong",
            source="ISO/IEC TS 4213:2022, accuracy of multi-class classification",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,  # noqa: ARG002 (part of the contract)
    ) -> Measures:
        pairs = lay_out(predictions, references)
        classes = [self._class_of(predicted) for predicted in self._normaliser.bulk(pairs.predictions)]
        true = self._normaliser.bulk(pairs.references)
        equal = np.array(list(map(eq, classes, true)), dtype=np.float64)
        correct = equal[pairs.best(equal)]
        unparsed = np.array([predicted is None for predicted in classes], dtype=np.float64)[pairs.starts]
        return pairs.measures(correct, {"correct": correct, "unparsed": unparsed})

    def compared(self, texts: Sequence[str]) -> list[str]:
        return self._normaliser.bulk(texts)

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return share(sums, "correct")

    def _class_of(self, answer: str) -> str | None:
        known = answer in self._labels if self._labels else bool(answer)
        return answer if known else None
