"""Structural fidelity: the gate on the answer as it stands, and the ladder above and beside it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.wording import Wording
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.testing.metrics import MetricCase, check_metric
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_structure_metrics.ladder import Ladder, ladder_of
from vlmhyperbench_structure_metrics.structural_fidelity import STATISTICS, StructuralFidelity

RECEIPT: JsonObject = {
    "type": "object",
    "properties": {"shop": {"type": "string"}, "total": {"type": "number"}},
    "required": ["total"],
    "additionalProperties": False,
}
TRUE = '{"shop": "Spar", "total": 10}'
CASES = [
    MetricCase(prediction=TRUE, references=(TRUE,), metadata={"json_schema": RECEIPT}),
    MetricCase(prediction='{"total": "10"}', references=(TRUE,), metadata={"json_schema": json.dumps(RECEIPT)}),
    MetricCase(prediction=f"```json\n{TRUE}\n```", references=(TRUE, "[]"), metadata={"json_schema": RECEIPT}),
    MetricCase(prediction="null", references=("null",), metadata={"json_schema": {"$ref": "#"}}),
    MetricCase(prediction=TRUE, references=(TRUE,), metadata={"json_schema": {"type": 5}}),
    MetricCase(prediction="[1, 2]", references=("[2, 1]", "[1, 2, 3]"), metadata={"json_schema": None}),
]


def measure(prediction: str, *references: str, metadata: Any = None, **params: Any) -> Measures:
    return StructuralFidelity(**params).measure([prediction], [references], metadata=[metadata or {}])


def climb(*answers: tuple[str, str], **params: Any) -> Ladder:
    metric = StructuralFidelity(**params)
    measures = metric.measure([said for said, _ in answers], [[true] if true else [] for _, true in answers])
    ladder = ladder_of({name: math.fsum(column) for name, column in measures.statistics.items()})
    assert ladder is not None
    return ladder


@pytest.mark.parametrize("params", [{}, {"schema": RECEIPT}, {"opening": "["}, {"schema": {"$ref": "#"}}])
def test_it_keeps_the_contract(params: dict[str, Any]) -> None:
    check_metric(StructuralFidelity(**params), cases=CASES)


@pytest.mark.parametrize(
    ("prediction", "expected"),
    [
        (TRUE, 1.0),
        ('{"total": 1}', 1.0),
        ('\n {"total": 1e2}\t', 1.0),
        ('{"total": "1"}', 0.0),
        ('{"shop": "a"}', 0.0),
        ('{"total": 1, "more": 2}', 0.0),
        ("[]", 0.0),
        (f"```json\n{TRUE}\n```", 0.0),
        (f"Here: {TRUE}", 0.0),
        ('{"total": 1, "total": 1}', 0.0),
        ('{"total": NaN}', 0.0),
        ('{"total": 1e999}', 0.0),
        ('{"total": 01}', 0.0),
        ("{'total': 1}", 0.0),
        ('{"total": 1,}', 0.0),
        ('\ufeff{"total": 1}', 0.0),
        ("", 0.0),
        ("null", 0.0),
    ],
)
def test_the_gate_opens_for_json_that_keeps_to_the_schema(prediction: str, expected: float) -> None:
    assert measure(prediction, TRUE, schema=RECEIPT).values == [expected]


@pytest.mark.parametrize(("prediction", "expected"), [("null", 1.0), ("[1]", 1.0), ('"a"', 1.0), ("a", 0.0), ("", 0.0)])
def test_without_a_schema_json_is_enough(prediction: str, expected: float) -> None:
    assert measure(prediction).values == [expected]


def test_a_sample_may_bring_its_own_schema() -> None:
    for own in ({"type": "null"}, '{"type": "null"}'):
        assert measure("null", metadata={"json_schema": own}, schema=RECEIPT).values == [1.0]
        assert measure(TRUE, metadata={"json_schema": own}, schema=RECEIPT).values == [0.0]
    assert measure(TRUE, metadata={"json_schema": None}, schema=RECEIPT).values == [1.0]
    assert measure(TRUE, metadata={"json_schema": False}).values == [0.0]


@pytest.mark.parametrize(
    "schema", [{"type": 5}, "{", {"$ref": "http://example.com"}, {"pattern": "(?=a)"}, {"$ref": "#"}]
)
def test_a_schema_that_cannot_judge_leaves_its_sample_unscored(schema: Any, wording: Wording) -> None:
    measures = StructuralFidelity().measure(
        ["null", "null"], [["null"]] * 2, metadata=[{"json_schema": schema}, {"json_schema": {"type": "null"}}]
    )
    assert measures.values == [None, 1.0]
    wording(measures.reasons[0] or "")
    assert not any(column[0] for column in measures.statistics.values())


@pytest.mark.parametrize("params", [{"schema": {"type": 5}}, {"schema": 5}, {"opening": "("}, {"profile": "lax"}])
def test_wrong_params_are_refused(params: dict[str, Any], wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        StructuralFidelity(**params)
    wording(refused.value)


def test_a_ladder_by_head() -> None:
    ladder = climb(
        (TRUE, TRUE),
        (f"```json\n{TRUE}\n```", TRUE),
        ('{"total": 5, "tip": 1}', TRUE),
        ("no idea", TRUE),
        ("", ""),
        schema=RECEIPT,
    )
    assert (ladder.answers, ladder.with_schema, ladder.with_reference) == (5, 5, 4)
    assert (ladder.not_empty, ladder.parses, ladder.parses_repaired) == (4 / 5, 2 / 5, 3 / 5)
    assert (ladder.valid, ladder.valid_repaired) == (1 / 5, 2 / 5)
    # Keys shared: 2, 0, 1, 0 of 2 expected each; predicted 2, 0, 2, 0.
    assert (ladder.key_precision, ladder.key_recall) == (3 / 4, 3 / 8)
    assert (ladder.key_precision_repaired, ladder.key_recall_repaired) == (5 / 6, 5 / 8)
    # Values: 2 of 2, 0 of 2, half a total of (shop, total, tip), 0 of 2.
    assert ladder.value_score == pytest.approx(2.5 / 9)
    assert ladder.value_score_repaired == pytest.approx(4.5 / 9)
    assert (ladder.exact, ladder.exact_repaired) == (1 / 4, 2 / 4)


def test_a_reference_that_is_no_json_leaves_the_upper_levels_undefined() -> None:
    for reference in ("Spar", ""):
        ladder = climb((TRUE, reference))
        assert (ladder.valid, ladder.with_reference) == (1.0, 0)
        assert ladder.key_precision is ladder.key_recall is ladder.value_score is ladder.exact is None


def test_a_document_without_keys_has_no_precision_and_no_recall() -> None:
    ladder = climb(("[1]", "[1]"))
    assert ladder.key_precision is ladder.key_recall is None
    assert (ladder.value_score, ladder.exact) == (1.0, 1.0)


def test_the_reference_with_the_closest_values_counts() -> None:
    measures = measure('{"a": 1, "b": 2}', '{"z": 1}', '{"a": 1, "b": 2, "c": 3}', "no JSON")
    row = {name: column[0] for name, column in measures.statistics.items()}
    assert (row["l4_expected"], row["l4_tp"], row["l5_sum"], row["l5_count"], row["l6"]) == (3, 2, 2, 3, 0)


def test_the_repair_looks_for_the_declared_bracket() -> None:
    for opening, expected in (("{", 0.0), ("[", 1.0)):
        assert measure("Pages: [1, 2]", opening=opening).statistics["l2_repaired"] == [expected]


def test_nothing_scored_has_no_ladder() -> None:
    assert ladder_of({}) is None
    assert ladder_of(dict.fromkeys(STATISTICS, 0.0)) is None
    assert StructuralFidelity().combine({}) is None


ANSWERS = st.sampled_from(
    [TRUE, '{"total": 3}', "[]", "null", "", "x", f"```\n{TRUE}\n```", '{"total": "a", "x": [1]}']
)


@given(st.lists(st.tuples(ANSWERS, ANSWERS), min_size=1, max_size=6))
def test_the_ladder_only_narrows(answers: list[tuple[str, str]]) -> None:
    ladder = climb(*answers, schema=RECEIPT)
    assert ladder.not_empty >= ladder.parses_repaired >= ladder.parses >= ladder.valid
    assert ladder.parses_repaired >= ladder.valid_repaired >= ladder.valid
    shares = [ladder.key_precision, ladder.key_recall, ladder.value_score, ladder.exact]
    assert all(share is None or 0 <= share <= 1 for share in shares)
    if ladder.exact is not None and ladder.value_score is not None:
        assert (ladder.exact == 1.0) <= (ladder.value_score == 1.0)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("[" * 1_000_000, 0.0),
        ('{"a":' * 65 + "1" + "}" * 65, 0.0),
        ('{"a":' * 64 + "1" + "}" * 64, 1.0),
        ('{"a": ' + "9" * 4000 + "}", 1.0),
        ('{"a": "\\ud800", "\\udfff": "\\u0000"}', 1.0),
        ('{"a": "\ud800"}', 1.0),
        (json.dumps([{"a": no} for no in range(20_000)]), 1.0),
        ("```" * 300_000, 0.0),
        ('{"' * 500_000, 0.0),
        ("x" * 1_000_000, 0.0),
    ],
    ids=["brackets", "deep", "deepest", "huge", "escaped", "surrogate", "long", "fences", "quotes", "letters"],
)
def test_hostile_answers_are_judged(answer: str, expected: float) -> None:
    measures = measure(answer, '{"a": 1}', schema={"minLength": 1, "propertyNames": {"pattern": "."}})
    assert measures.values == [expected]
