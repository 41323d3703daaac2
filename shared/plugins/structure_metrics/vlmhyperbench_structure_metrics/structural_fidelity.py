"""Structural fidelity: whether an answer is the JSON that was asked for, and how far up the ladder it gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.jsontext import parse_json, repair_json
from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, JsonValue, Measures
from vlmhyperbench_structure_metrics.likeness import Likeness, compare, compare_with_nothing
from vlmhyperbench_structure_metrics.schemas import JsonSchema, read_schema

PROFILES = ("strict",)
SCHEMA_FIELD = "json_schema"
"""Where a sample's metadata names a schema of its own."""
STATISTICS = (
    "count", "has_schema", "has_reference", "l0", "l1", "l2_repaired", "l3", "l3_repaired", "l4_expected",
    "l4_predicted", "l4_tp", "l5_sum", "l5_count", "l6", "l4_predicted_repaired", "l4_tp_repaired", "l5_sum_repaired",
    "l5_count_repaired", "l6_repaired",
)  # fmt: skip

_REASON_CHARS = 200


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A text that is JSON; its value may be null."""

    value: JsonValue


class StructuralFidelity:
    """The gate: 1 where the answer as it stands is JSON that keeps to its schema, else 0; never unscored for being bad.

    L0 not empty, L1 strict JSON, L2 JSON after the declared repair, L3 valid under the schema, L4 keys, L5 values, L6
    the whole document: `ladder_of` reads them out of the sums of the statistics. The schema is the sample's own
    (`metadata["json_schema"]`, an object or its text) or else the param; without one, JSON is enough. A reference is
    needed for L4 to L6 only, and has to be JSON for that.
    """

    def __init__(
        self,
        *,
        profile: str = "strict",
        schema: JsonValue = None,
        opening: Literal["{", "["] = "{",
    ) -> None:
        """Take a schema for all samples, and the bracket that the repair looks for.

        Raises:
            InvalidInput: there is no such profile or bracket, or the schema cannot be used.
        """
        self._profile = check_profile("structural_fidelity", profile, PROFILES)
        if opening not in ("{", "["):
            raise InvalidInput("The opening of structural_fidelity is no bracket.", cure="Write opening: '{' or '['.")
        self._opening: Literal["{", "["] = opening
        self._schema = None if schema is None else read_schema(schema)

    @property
    def description(self) -> MetricDescription:
        return MetricDescription(
            name="structural_fidelity",
            profile=self._profile,
            version="1.0.0",
            title="Structural fidelity",
            kind="structure",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="mean",
            proportion=True,
            normaliser="none: the answer as it stands; the levels after repair are reported apart",
            formula="1 if the answer is strict JSON and keeps to its JSON Schema (is JSON, without a schema), else 0",
            source="RFC 8259; JSON Schema draft 2020-12, core and validation, format as annotation",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,
    ) -> Measures:
        values: list[float | None] = []
        reasons: list[str | None] = []
        columns: dict[str, list[float]] = {name: [] for name in STATISTICS}
        without: Sequence[JsonObject] = [{}] * len(predictions)
        for prediction, own, about in zip(predictions, references, metadata or without, strict=True):
            try:
                found, reason = self._climb(prediction, own, about), None
            except InvalidInput as error:
                found, reason = {}, f"{error.code}: {error}"[:_REASON_CHARS]
            values.append(found.get("l3"))
            reasons.append(reason)
            for name, column in columns.items():
                column.append(found.get(name, 0.0))
        return Measures(values=values, reasons=reasons, statistics=columns)

    def combine(self, sums: Mapping[str, float]) -> float | None:
        count = sums.get("count", 0.0)
        return sums["l3"] / count if count > 0 else None

    def _climb(self, prediction: str, references: Sequence[str], about: JsonObject) -> dict[str, float]:
        """Return the statistics of one answer.

        Raises:
            InvalidInput: its schema cannot be used, or not be decided for it.
        """
        schema = self._schema_of(about)
        predicted = repaired = _parsed(prediction)
        if predicted is None:
            text, repairs = repair_json(prediction, opening=self._opening)
            repaired = _parsed(text) if repairs else None
        is_repaired_valid = repaired is not None and (schema is None or schema.is_valid(repaired.value))
        return {
            "count": 1.0,
            "has_schema": float(schema is not None),
            "l0": float(bool(prediction.strip())),
            "l1": float(predicted is not None),
            "l2_repaired": float(repaired is not None),
            "l3": float(predicted is not None and is_repaired_valid),
            "l3_repaired": float(is_repaired_valid),
            **_resemblance(predicted, repaired, [true for text in references if (true := _parsed(text)) is not None]),
        }

    def _schema_of(self, about: JsonObject) -> JsonSchema | None:
        own = about.get(SCHEMA_FIELD)
        return self._schema if own is None else read_schema(own)


def _resemblance(predicted: _Parsed | None, repaired: _Parsed | None, truths: Sequence[_Parsed]) -> dict[str, float]:
    """Return L4 to L6 against the reference whose values are closest, the first among equals."""
    if not truths:
        return {}
    likenesses = [
        compare_with_nothing(true.value) if repaired is None else compare(true.value, repaired.value) for true in truths
    ]
    best = max(range(len(truths)), key=lambda no: likenesses[no].score / likenesses[no].values)
    after = likenesses[best]
    before = after if predicted is not None else compare_with_nothing(truths[best].value)
    return {
        "has_reference": 1.0,
        "l4_expected": float(after.expected_keys),
        **_levels(before, ""),
        **_levels(after, "_repaired"),
    }


def _levels(likeness: Likeness, suffix: str) -> dict[str, float]:
    return {
        f"l4_predicted{suffix}": float(likeness.predicted_keys),
        f"l4_tp{suffix}": float(likeness.shared_keys),
        f"l5_sum{suffix}": likeness.score,
        f"l5_count{suffix}": float(likeness.values),
        f"l6{suffix}": float(likeness.is_equal),
    }


def _parsed(text: str) -> _Parsed | None:
    try:
        return _Parsed(parse_json(text, any_text=True))
    except InvalidInput:
        return None
