"""Field F1: how many fields of the answer and of the document are right, counted together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from vlmhyperbench_document_metrics.documents import Container, JsonAnswers, measure_documents
from vlmhyperbench_document_metrics.field_statistics import field_statistics
from vlmhyperbench_document_metrics.fields import Tally, compare_fields
from vlmhyperbench_document_metrics.rules import FORMULAS, NORMALISER, RULES
from vlmhyperbench_sdk.params import check_flag, check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, JsonValue, Measure, Measures

PROFILES = RULES

_STATISTICS = ("right", "predicted", "expected", "invalid")


class FieldF1:
    """Harmonic mean of the precision and recall of fields, from counts that are pooled over a group.

    Fields, their profiles and their matching are those of `field_accuracy`. Where neither the document nor the answer
    has a field they agree (1). An answer that is not JSON counts as one wrong field under `on_invalid` zero.
    """

    def __init__(
        self,
        *,
        profile: str = "exact",
        on_invalid: Literal["exclude", "zero"] = "exclude",
        repair: bool = False,
        per_field: bool = True,
    ) -> None:
        self._profile = check_profile("field_f1", profile, PROFILES)
        self._reading = JsonAnswers(on_invalid=on_invalid, repair=repair)
        self._per_field = check_flag("per_field", per_field)

    @property
    def description(self) -> MetricDescription:
        return MetricDescription(
            name="field_f1",
            profile=self._profile,
            version="1.0.0",
            title="Field F1",
            kind="document",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="pooled",
            proportion=False,
            normaliser=f"{NORMALISER}; {self._reading}",
            formula="2 * right fields / (fields of the answer + fields of the reference), 1 where there are none; a "
            f"field is right where {FORMULAS[self._profile]}; items of lists matched by the highest sum of their F1",
            source="this project; F1 of van Rijsbergen 1979, chapter 7, over fields",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,  # noqa: ARG002 (part of the contract)
    ) -> Measures:
        return measure_documents(
            predictions,
            references,
            self._reading,
            compare=self._compare,
            unreadable=self._unreadable,
            statistics=_STATISTICS,
        )

    def combine(self, sums: Mapping[str, float]) -> float | None:
        if sums.get("count", 0.0) <= 0:
            return None
        return _f1(sums["right"], sums["predicted"], sums["expected"])

    def _compare(self, reference: Container, answer: JsonValue) -> Measure:
        tally = compare_fields(reference, answer, self._profile)
        return self._measure(tally, predicted=tally.predicted, invalid=0.0)

    def _unreadable(self, reference: Container) -> Measure:
        return self._measure(compare_fields(reference, None, self._profile), predicted=1, invalid=1.0)

    def _measure(self, tally: Tally, *, predicted: int, invalid: float) -> Measure:
        right, expected = float(tally.right.total()), float(tally.expected.total())
        named = field_statistics(tally) if self._per_field else {}
        counts = {"right": right, "predicted": float(predicted), "expected": expected, "invalid": invalid}
        return Measure(value=_f1(right, float(predicted), expected), statistics={**named, **counts})


def _f1(right: float, predicted: float, expected: float) -> float:
    return 2.0 * right / (predicted + expected) if predicted + expected > 0 else 1.0
