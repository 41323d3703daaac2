"""Field accuracy: the share of a document's fields that are right in the answer."""

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

NO_FIELDS = "no_fields"

_STATISTICS = ("right", "expected", "invalid")


class FieldAccuracy:
    r"""The share of a document's fields that are right in the answer.

    ## Formula

    Right fields / fields of the reference; best over the references.

    - A field is a leaf of a JSON object or array that has a value. Null, blank text, `{}` and `[]` are no field, on
      either side.
    - Its path is made of its keys and `[]` for every list: `items[].price`. Keys are compared as they stand.
    - Objects are compared key by key. The items of every list, of objects, of lists and of scalars, are matched so that
      the sum of their own F1 is highest (maximum weight matching), and of equal sums the one with more right fields:
      the order of items never counts.
    - What the answer says beyond the reference costs nothing here, but in [field_f1](field_f1.md). A scalar for an
      object or a list, or the other way round, is wrong.

    Texts are compared after NFKC, casefold, white space collapsed and stripped. A JSON number is also right where its
    value is: `12.5` is `12.50`, `1.25e1` and the text `"12.50"`, for a text that is written as a JSON number. Two texts
    are texts: `"12.5"` is not `"12.50"`, nor `"007"` the number 7, nor `"12,5"` the number 12.5. As text a number is
    its shortest decimal form; `true` is the text `true`.

    Options: `on_invalid` (`exclude` or `zero`), `repair` (false or true), `per_field` (true or false).

    ## A group

    Σ right / Σ expected. The additive statistics are `right`, `expected`, `invalid` and `count`, and for every path
    `right:<path>` and `expected:<path>`, from which a table of fields follows for any group. A sample has at most 100
    paths, the first of its reference; all beyond are counted as `*`. A path longer than 100 characters is cut and ends
    in a digest; NUL and lone surrogates are U+FFFD. Where keys are data (a date, a question), every sample has paths of
    its own: give `per_field: false`.

    ## How it is given

    Reference and answer are JSON; in rows for `vlmhyperbench score` as values or as text, an array inside of the list
    of targets:

    ```json
    {"id": 1, "prediction": {"no": "A-17"}, "targets": {"no": "a-17", "total": 12.5}}
    {"id": 2, "prediction": "[{\"name\": \"tea\"}]", "targets": [[{"name": "tea"}, {"name": "milk"}]]}
    ```

    ## Bad input

    - No reference: unscored (`no_reference`). One that is no JSON object or array, or has a key twice: unscored
      (`invalid_reference`). One without any field: unscored (`no_fields`).
    - An answer that is not JSON to the letter (RFC 8259; no key twice, no NaN, at most 64 levels): unscored
      (`invalid_json`), or 0 with `on_invalid: zero`, where `invalid` counts it. `repair: true` reads the first code
      fence, else the first balanced object or array, whichever the reference is. An answer that is JSON of another kind
      is wrong in every field.
    - More than 4,000,000 pairs of values in one comparison of two lists (2,000 items with 2,000), 40,000,000 in all,
      where a pair of lists counts 100, or more than 4·10¹⁰ pairs of characters: unscored (`too_large`).

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | Tools that flatten by index (`items.0.price`) | one missing item makes all that follow wrong; here the others are
        matched |
    | Tools that count null as a field | `null` for `null` is right there, and makes forms with many empty fields look
        easy |
    | `anls_star` | counts how alike wrong values are, and null as a leaf |
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
        self._profile = check_profile("field_accuracy", profile, self.profiles)
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

    def compared(self, texts: Sequence[str]) -> list[str]:
        return compared_documents(texts, self._reading, field_text)

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
