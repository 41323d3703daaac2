"""Structural fidelity: whether an answer is the requested JSON, and the levels of the ladder that it reaches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.jsontext import parse_json, repair_json
from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, JsonValue, Measures
from vlmhyperbench_structure_metrics.likeness import Likeness, compare, compare_with_nothing
from vlmhyperbench_structure_metrics.schemas import JsonSchema, read_schema

SCHEMA_FIELD = "json_schema"
"""Key of a sample's own schema in its metadata."""
STATISTICS = (
    "count", "has_schema", "has_reference", "l0", "l1", "l2_repaired", "l3", "l3_repaired", "l4_expected",
    "l4_predicted", "l4_tp", "l5_sum", "l5_count", "l6", "l4_predicted_repaired", "l4_tp_repaired", "l5_sum_repaired",
    "l5_count_repaired", "l6_repaired",
)  # fmt: skip

_REASON_CHARS = 200


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A text that is JSON, with its value, which may be null."""

    value: JsonValue


class StructuralFidelity:
    r"""The answer is the requested JSON; six further levels show how close it is.

    ## Formula

    The gate: 1 if the answer as it stands is strict JSON (RFC 8259) and valid under its JSON Schema (draft 2020-12),
    else 0. Without a schema, JSON is enough.

    The ladder of a group, which `ladder_of(sums)` reads out of the sums of the statistics:

    | Level | Share of the scored answers, or as said |
    |---|---|
    | L0 | not empty |
    | L1 | strict JSON |
    | L2 | JSON as it stands or after the declared repair: what stands in the first code fence, then the first balanced
        object (param `opening: "["`: list); reported apart |
    | L3 | the gate; after the repair it is reported apart |
    | L4 | keys: precision = shared / predicted, recall = shared / expected, pooled. A key is the path of an object's
        member, list positions included |
    | L5 | values: mean closeness over all paths at which either document has a scalar, an empty object or an empty
        list, pooled. A path that only one side has is 0, and so are values of two types |
    | L6 | the whole document is equal, of the answers whose reference is JSON |

    Closeness of two values: numbers `1 − |p − t| / max(|p|, |t|)`, not below 0; texts `1 − levenshtein / longer
    length`, case and white space counting; booleans, null and empty containers 1 if equal. 1 and 1.0 are one number;
    true is no number; the order of keys means nothing, that of lists does.

    L4 to L6 look at the answer as it stands, and apart at what the repair makes of it. An answer that is no JSON shares
    no key and misses every value. Of several references the one with the closest values counts.

    ## The schema

    Param `schema` for all samples, or a sample's own in its metadata as `json_schema` (an object or its text), which
    goes first. `format` asserts nothing, as in the draft. `$ref` and `$dynamicRef` stay inside the document; nothing is
    ever retrieved. `$schema` may only name draft 2020-12, at the root. Patterns run in RE2, linear in the text:
    lookarounds, backreferences, `\c…` and long property names (`\p{Letter}`; write `\p{L}`) are refused.

    A wrong param is refused at once, with the place in the schema. A sample's own schema that cannot be used leaves
    that sample unscored (`invalid_schema`); so does one that refers to itself without end for this answer
    (`schema_loop`), nests beyond Python's stack (`schema_too_deep`) or needs over 1,000,000 keywords
    (`schema_too_costly`).

    ## A group

    The mean of its samples' values. The additive statistics are `count`, `has_schema`, `has_reference`, `l0`, `l1`,
    `l2_repaired`, `l3`, `l3_repaired`; `l4_expected`, `l4_predicted`, `l4_tp`; `l5_sum`, `l5_count`; `l6`; and
    `l4_predicted`, `l4_tp`, `l5_sum`, `l5_count`, `l6` with `_repaired`.

    ## Bad input

    An answer that is no JSON is what this metric measures: 0, never excluded. A key that appears twice, NaN,
    infinities, numbers beyond a double, whole numbers of over 4,300 digits, more than 64 levels and a byte order mark
    are no JSON here; half a character (a lone surrogate) is let through.

    A sample without a reference is scored, by its gate and L0 to L3. Where no reference is JSON, L4 to L6 are undefined
    for the sample, not 0.

    ## Rows of `vlmhyperbench score`

    ```json
    {"id": 1, "prediction": "{\"total\": 10}", "targets": [{"total": 10}], "json_schema": {"required": ["total"]}}
    ```

    `prediction` is the answer's text; what is not a text is taken as its JSON. `targets` may be `[]`. One schema for
    all rows: `--param schema=@schema.json`.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | jsonschema | `multipleOf` is decimal here: 1.1 is a multiple of 0.01, which binary fractions deny. Patterns have
        ECMA-262's `\d`, `\w` (ASCII) and `\s`, and `$` is the end of the text only. Otherwise the same validator; the
        draft's official tests that need no remote document pass |
    | `json.loads` | takes NaN, infinities and duplicate keys |
    | Constrained decoding's own checks | many know a part of the draft only, and count a repaired answer as valid |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "strict": "the gate as it is said above.",
    }

    def __init__(
        self,
        *,
        profile: str = "strict",
        schema: JsonValue = None,
        opening: Literal["{", "["] = "{",
    ) -> None:
        """Accept a schema for all samples, and the opening bracket that the repair searches for.

        Raises:
            InvalidInput: there is no such profile or bracket, or the schema cannot be used.
        """
        self._profile = check_profile("structural_fidelity", profile, self.profiles)
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
                levels, reason = self._climb(prediction, own, about), None
            except InvalidInput as error:
                levels, reason = {}, f"{error.code}: {error}"[:_REASON_CHARS]
            values.append(levels.get("l3"))
            reasons.append(reason)
            for name, column in columns.items():
                column.append(levels.get(name, 0.0))
        return Measures(values=values, reasons=reasons, statistics=columns)

    def combine(self, sums: Mapping[str, float]) -> float | None:
        count = sums.get("count", 0.0)
        return sums["l3"] / count if count > 0 else None

    def _climb(self, prediction: str, references: Sequence[str], about: JsonObject) -> dict[str, float]:
        """Return the statistics of an answer.

        Raises:
            InvalidInput: its schema cannot be used, or its validity cannot be decided.
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
