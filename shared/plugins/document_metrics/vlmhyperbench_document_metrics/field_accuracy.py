"""Field accuracy: how many of the fields that a document has are right in the answer."""

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

NO_FIELDS = "no_fields"

_STATISTICS = ("right", "expected", "invalid")


class FieldAccuracy:
    """Right fields over expected fields, pooled over a group; best over the references.

    A field is a leaf with a value: null, blank text, an empty object and an empty list are none. What an answer says
    beyond the reference costs nothing here, but in `field_f1`. Profiles are the rules by which a field is right.
    """

    def __init__(
        self,
        *,
        profile: str = "exact",
        on_invalid: Literal["exclude", "zero"] = "exclude",
        repair: bool = False,
        per_field: bool = True,
    ) -> None:
        self._profile = check_profile("field_accuracy", profile, PROFILES)
        self._reading = JsonAnswers(on_invalid=on_invalid, repair=repair)
        self._per_field = check_flag("per_field", per_field)

    @property
    def description(self) -> MetricDescription:
        return MetricDescription(
            name="field_accuracy",
            profile=self._profile,
            version="1.0.0",
            title="Field accuracy",
            kind="document",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="pooled",
            proportion=False,
            normaliser=f"{NORMALISER}; {self._reading}",
            formula=f"right fields / fields of the reference; a field is right where {FORMULAS[self._profile]}; "
            "items of lists matched by the highest sum of their F1",
            source="this project",
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
        return sums["right"] / sums["expected"] if sums.get("expected", 0.0) > 0 else None

    def _compare(self, reference: Container, answer: JsonValue) -> Measure:
        return self._measure(compare_fields(reference, answer, self._profile), invalid=0.0)

    def _unreadable(self, reference: Container) -> Measure:
        return self._measure(compare_fields(reference, None, self._profile), invalid=1.0)

    def _measure(self, tally: Tally, *, invalid: float) -> Measure:
        right, expected = tally.right.total(), tally.expected.total()
        if expected == 0:
            return Measure.unscored(NO_FIELDS)
        named = field_statistics(tally) if self._per_field else {}
        statistics = {**named, "right": float(right), "expected": float(expected), "invalid": invalid}
        return Measure(value=right / expected, statistics=statistics)
