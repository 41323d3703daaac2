"""Entity F1 by seqeval's definition; values are what seqeval 1.2.2 gives, the first that of its README."""

from __future__ import annotations

import json
import math

import pytest

from vlmhyperbench_document_metrics.entities import entities_of_tags
from vlmhyperbench_document_metrics.entity_f1 import EntityF1


def _value(answer: str, reference: str, profile: str = "seqeval") -> float | None:
    return EntityF1(profile=profile).measure([answer], [[reference]]).values[0]


def test_a_group_is_the_micro_average_of_the_readme_of_seqeval() -> None:
    true = ["O O O B-MISC I-MISC I-MISC O", "B-PER I-PER O"]
    said = ["O O B-MISC I-MISC I-MISC I-MISC O", "B-PER I-PER O"]
    for profile in EntityF1.profiles:
        metric = EntityF1(profile=profile)
        measures = metric.measure(said, [[tags] for tags in true])
        assert measures.values == [0.0, 1.0]
        assert metric.combine({name: math.fsum(column) for name, column in measures.statistics.items()}) == 0.5


@pytest.mark.parametrize(
    ("tags", "entities"),
    [
        ("B-Q I-Q O I-A", {("q", 1, 2), ("a", 4, 4)}),
        ("I-Q I-A B-A", {("q", 1, 1), ("a", 2, 2), ("a", 3, 3)}),
        ("B-Q I-A I-A", {("q", 1, 1), ("a", 2, 3)}),
        ("O I-Q B-Q", {("q", 2, 2), ("q", 3, 3)}),
        ("O O", set()),
    ],
)
def test_entities_begin_where_seqeval_has_them(tags: str, entities: set[tuple[str, int, int]]) -> None:
    assert entities_of_tags(tags.split()) == entities


PAGE = "B-HEADER O B-QUESTION I-QUESTION B-ANSWER"


@pytest.mark.parametrize(
    ("answer", "precision", "recall", "f1"),
    [
        (json.dumps(PAGE.split()), 1.0, 1.0, 1.0),
        (
            '[{"label": "Question", "first": 3, "last": 4}, {"label": "answer", "first": 5}, {"label":"o", "first":2}]',
            1.0,
            2 / 3,
            0.8,
        ),
        ('[{"label": "question", "first": 3, "last": 5}, {"label": "answer"}, 7]', 0.0, 0.0, 0.0),
        ('["B-HEADER"]', 1.0, 1 / 3, 0.5),
        ("[]", 0.0, 0.0, 0.0),
    ],
)
def test_an_answer_is_a_list_of_tags_or_of_entities(answer: str, precision: float, recall: float, f1: float) -> None:
    values = [_value(answer, PAGE, profile) for profile in ("precision", "recall", "seqeval")]
    assert values == pytest.approx([precision, recall, f1])


def test_a_page_without_entities_is_right_when_none_is_said() -> None:
    assert [_value("[]", "O O"), _value("B-A", "O O")] == [1.0, 0.0]


@pytest.mark.parametrize("answer", ["I see a form.", '{"label": "answer", "first": 1}', '["question"]', ""])
def test_an_answer_of_another_form_has_no_value_or_is_one_wrong_entity(answer: str) -> None:
    assert EntityF1().measure([answer], [[PAGE]]).reasons == ["invalid_json"]
    zero = EntityF1(on_invalid="zero").measure([answer], [[PAGE]])
    assert (zero.values, zero.statistics["predicted"], zero.statistics["invalid"]) == ([0.0], [1.0], [1.0])


def test_a_reference_that_is_no_list_of_tags_is_unscored() -> None:
    assert EntityF1().measure(["[]", "[]"], [["a form"], []]).reasons == ["invalid_reference", "no_reference"]
