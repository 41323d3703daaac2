"""Field F1: the share of right fields among those of the answer and of the document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from vlmhyperbench_document_metrics.documents import Container, JsonAnswers, measure_documents
from vlmhyperbench_document_metrics.field_statistics import field_statistics
from vlmhyperbench_document_metrics.fields import Tally, compare_fields
from vlmhyperbench_document_metrics.rules import FORMULAS, NORMALISER, field_text
from vlmhyperbench_document_metrics.shown import compared_documents
from vlmhyperbench_sdk.params import check_flag, check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, JsonValue, Measure, Measures

_STATISTICS = ("right", "predicted", "expected", "invalid")


class FieldF1:
    """The share of right fields among those of the answer and of the document.

    ## Formula

    2 · right / (fields of the answer + fields of the reference); best over the references. It is the harmonic mean of
    precision (right / fields of the answer) and recall (right / fields of the reference, which is
    [field_accuracy](field_accuracy.md)). Where neither has a field: 1.

    What a field is, when it is right and how items are matched: as in [field_accuracy](field_accuracy.md).

    Options: `on_invalid` (`exclude` or `zero`), `repair` (false or true), `per_field` (true or false).

    ## A group

    2 · Σ right / (Σ predicted + Σ expected): micro F1. The additive statistics are `right`, `predicted`, `expected`,
    `invalid` and `count`, and `right:<path>` and `expected:<path>` as in [field_accuracy](field_accuracy.md).

    ## How it is given

    As in [field_accuracy](field_accuracy.md):

    ```json
    {"id": 1, "prediction": {"no": "A-17", "date": "2024-01-02"}, "targets": {"no": "A-17", "total": 12.5}}
    ```

    ## Bad input

    As in [field_accuracy](field_accuracy.md), but a reference without fields has a value: 1 for an answer without any,
    else 0. Under `on_invalid: zero` an answer that is not JSON is 0 and counts as one wrong field in a group.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | Macro F1 by field | the mean of each field's own F1; here every field of every document weighs the same |
    | Donut's field F1 (CORD) | every leaf is a text beside its path, the same path and text twice counts twice, items
        are not kept together: a price may be right in another item |
    | SQuAD's F1, `token_f1` | shares words of one text; here a field is right or wrong |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "exact": "a field is right where the texts are equal.",
        "cer": "a field is right where Levenshtein distance / length of the reference's text ≤ 0.15.",
        "similarity": "a field is right where 1 − Levenshtein distance / length of the longer text ≥ 0.90.",
    }

    def __init__(
        self,
        *,
        profile: str = "exact",
        on_invalid: Literal["exclude", "zero"] = "exclude",
        repair: bool = False,
        per_field: bool = True,
    ) -> None:
        self._profile = check_profile("field_f1", profile, self.profiles)
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

    def compared(self, texts: Sequence[str]) -> list[str]:
        return compared_documents(texts, self._reading, field_text)

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
