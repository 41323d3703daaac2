"""Every metric of the package keeps the SDK's contract, in every profile, and is found by its name."""

from __future__ import annotations

import json

import pytest

from tests.support.wording import Wording
from vlmhyperbench_document_metrics.anls_star import AnlsStar
from vlmhyperbench_document_metrics.field_accuracy import FieldAccuracy
from vlmhyperbench_document_metrics.field_f1 import FieldF1
from vlmhyperbench_document_metrics.item_count import ItemCountAccuracy
from vlmhyperbench_document_metrics.teds import Teds
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.protocols import ComparesTexts, Metric
from vlmhyperbench_sdk.testing.metrics import MetricCase, check_metric, in_every_profile, names_of

NAMES = names_of("vlmhyperbench-document-metrics")
METRICS: list[Metric] = [
    *in_every_profile(NAMES),
    AnlsStar(on_invalid="zero"),
    AnlsStar(repair=True),
    FieldAccuracy(profile="cer", on_invalid="zero"),
    FieldAccuracy(profile="similarity", repair=True, per_field=False),
    FieldF1(profile="cer", on_invalid="zero"),
    FieldF1(profile="similarity", repair=True, per_field=False),
    ItemCountAccuracy(on_invalid="zero"),
    ItemCountAccuracy(profile="recognised", rule="similarity", repair=True),
]
OF_JSON = ["anls_star", "entity_f1", "field_accuracy", "field_f1", "item_count_accuracy"]

INVOICE = '{"no": "A-17", "total": 12.5, "items": [{"name": "tea", "price": 4}, {"name": "milk", "price": 8.5}]}'
TABLE = "<table><tr><td>tea</td><td>4</td></tr><tr><td colspan='2'>milk</td></tr></table>"
PAGE = json.dumps(
    {
        "layout_dets": [
            {"category_type": "title", "order": 1, "anno_id": 7, "text": "Tea"},
            {"category_type": "equation_isolated", "order": 2, "latex": "\\text{y}"},
            {"category_type": "table", "order": 3, "html": TABLE},
        ]
    }
)
ANSWERS = (
    INVOICE,
    '{"no": "A-17", "total": "12.50", "items": [{"name": "milk", "price": 8.5}]}',
    '{"no": null, "items": [{"name": "te\\u0301"}, null, [], 7], "\\u202e\\ud800": "\\u0000"}',
    '{"no": "A-17", "no": "A-18"}',
    '{"items": {"name": "tea"}}',
    f"```json\n{INVOICE}\n```",
    "The total is 12.50.",
    "[" * 64 + "]" * 64,
    '{"a":' * 65 + "1" + "}" * 65,
    '[{"name": "tea", "price": 4}]',
    '"A-17"',
    TABLE,
    TABLE.replace("tea", "te\u0301\ud800"),
    "<table><th>tea<table><td>",
    "NaN",
    "{}",
    "[]",
    "",
)
CASES = [
    *(MetricCase(prediction=answer, references=(INVOICE,)) for answer in ANSWERS),
    *(MetricCase(prediction=answer, references=(answer,)) for answer in ANSWERS),
    *(MetricCase(prediction=answer, references=(TABLE,)) for answer in ANSWERS),
    MetricCase(prediction=ANSWERS[1], references=("{}", ANSWERS[1], INVOICE)),
    MetricCase(prediction=INVOICE, references=()),
    MetricCase(prediction=INVOICE, references=("[]",)),
    *(MetricCase(prediction=answer, references=("B-QUESTION I-QUESTION O B-ANSWER",)) for answer in ANSWERS),
    *(MetricCase(prediction=answer, references=(PAGE,)) for answer in (*ANSWERS, "# tea $x$\n$$y$$", "[" * 99)),
    MetricCase(prediction='[{"label": "answer", "first": 4}]', references=("B-QUESTION O O B-ANSWER", "O")),
]
MEGABYTE = 1_000_000
LONG = {
    "words": "word " * (MEGABYTE // 5),
    "blanks": " " * MEGABYTE + "x",
    "combining": "e\u0301" * (MEGABYTE // 2),
    "right_to_left": "\u0633\u0644\u0627\u0645 " * (MEGABYTE // 5),
    "surrogates": "\ud800 " * (MEGABYTE // 2),
    "brackets": "[" * MEGABYTE,
    "pairs_of_brackets": "[" * (MEGABYTE // 2) + "]" * (MEGABYTE // 2),
    "one_text": json.dumps({"no": "y" * MEGABYTE}),
    "many_items": json.dumps([{"name": "tea"}] * (MEGABYTE // 16)),
    "many_keys": json.dumps({f"key {no}": no for no in range(MEGABYTE // 40)}),
    "many_cells": "<table><td>" * (MEGABYTE // 11),
    "many_fences": "```json {" * (MEGABYTE // 9),
}


@pytest.mark.parametrize(
    "metric", METRICS, ids=lambda metric: f"{metric.description.name}@{metric.description.profile}"
)
def test_a_document_metric_keeps_the_contract(metric: Metric) -> None:
    check_metric(metric, cases=CASES)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_profile_is_refused(name: str, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        discovery.load("metrics", name)(profile="nonsense")
    wording(refused.value)


@pytest.mark.parametrize("name", OF_JSON)
@pytest.mark.parametrize("params", [{"on_invalid": "ignore"}, {"repair": "yes"}, {"repair": 1}])
def test_params_other_than_the_declared_ones_are_refused(name: str, params: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="The param"):
        discovery.load("metrics", name)(**params)


@pytest.mark.parametrize("name", OF_JSON)
def test_params_are_part_of_the_normaliser(name: str) -> None:
    shown = {
        discovery.load("metrics", name)(on_invalid=worth, repair=repair).description.normaliser
        for worth in ("exclude", "zero")
        for repair in (False, True)
    }
    assert len(shown) == 4


@pytest.mark.parametrize("name", NAMES)
def test_a_megabyte_of_anything_has_a_value_or_a_reason(name: str) -> None:
    texts = list(LONG.values())
    measures = discovery.load("metrics", name)().measure(texts, [[INVOICE if name in OF_JSON else TABLE]] * len(texts))
    assert all((value is None) == bool(reason) for value, reason in zip(measures.values, measures.reasons, strict=True))


@pytest.mark.parametrize(
    "metric", METRICS, ids=lambda metric: f"{metric.description.name}@{metric.description.profile}"
)
@pytest.mark.parametrize("reference", [INVOICE, TABLE])
@pytest.mark.parametrize("answer", ANSWERS)
def test_texts_that_compare_equal_are_worth_what_equal_texts_are(metric: Metric, reference: str, answer: str) -> None:
    """A reader sees by what an answer differs; where nothing is shown, nothing may have cost a point."""
    assert isinstance(metric, ComparesTexts)
    shown, true = metric.compared([answer, reference])
    same, other = (metric.measure([text], [[reference]]).values[0] for text in (reference, answer))
    assert (shown == true) <= (same == other)
    assert metric.compared([]) == []


def test_fields_are_shown_as_they_are_compared() -> None:
    answer, reference = FieldF1().compared(
        ['{"b": " Tea ", "a": [{"x": 1.50}, null]}', '{"a": [{"x y": true}], "c": ""}']
    )
    assert (answer, reference) == ("a[1].x: 1.5\nb: tea", 'a[1]."x y": true')


def test_a_fenced_answer_is_shown_as_it_is_read_and_no_document_as_a_text() -> None:
    fenced = '```json\n{"no": 7}\n```'
    assert FieldF1(repair=True).compared([fenced, '{"no": 8}']) == ["no: 7", "no: 8"]
    assert AnlsStar().compared(["  A  Word", "a word"]) == ["a word", "a word"]
    assert AnlsStar().compared(["nothing", '{"no": null}']) == ["nothing", "no: (null)"]


def test_a_table_is_shown_by_its_elements() -> None:
    shown, none = Teds().compared(["<table><tr><td colspan=2>a <b>b</b></td><td>&lt;b&gt;</td></tr></table>", "no"])
    assert shown == "<table>\n  <tr>\n    <td colspan=2>a <b>b</b>\n    <td>&lt;b&gt;"
    assert none == "(no table)"
