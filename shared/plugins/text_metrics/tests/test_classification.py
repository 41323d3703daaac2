"""Classification: averages against scikit-learn's documentation, and what a confusion cell is called."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scoring_support import measure

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.testing.metrics import MetricCase, check_metric
from vlmhyperbench_sdk.types import Measures
from vlmhyperbench_text_metrics.classification import MAX_CLASS_CHARS, Classification
from vlmhyperbench_text_metrics.confusion import (
    UNPARSED,
    Average,
    ClassScores,
    Confusion,
    average_of,
    cell_name,
    confusion_of,
)

CASES = [
    MetricCase(prediction=prediction, references=references)
    for prediction in ("receipt", " Invoice", "a poem", "a|b", "%7C", UNPARSED, "x" * 81)
    for references in (("Receipt",), ("invoice", "receipt"), ("a|b",), ("", "invoice"), (UNPARSED,), ("x" * 81,))
]


def sums_of(measures: Measures) -> dict[str, float]:
    return {name: math.fsum(column) for name, column in measures.statistics.items()}


def averages(true: Sequence[str], answer: Sequence[str], labels: Sequence[str] = ()) -> dict[Average, float | None]:
    sums = sums_of(measure(Classification(labels=labels), [(a, [t]) for a, t in zip(answer, true, strict=True)]))
    return {
        profile: Classification(profile=profile, labels=labels).combine(sums) for profile in Classification.profiles
    }


@pytest.mark.parametrize("labels", [[], ["Receipt", "Invoice", "a|b", UNPARSED]])
@pytest.mark.parametrize("profile", Classification.profiles)
def test_it_keeps_the_contract(profile: Average, labels: list[str]) -> None:
    check_metric(Classification(profile=profile, labels=labels), cases=CASES)


def test_averages_of_scikit_learns_documentation() -> None:
    # f1_score, precision_score and recall_score: class 0 has 2 of 2 right and is said 3 times, the others have none.
    found = averages("012012", "021001")
    assert found["macro_f1"] == found["weighted_f1"] == pytest.approx(0.8 / 3)
    assert found["micro_f1"] == pytest.approx(2 / 6)
    assert found["macro_precision"] == pytest.approx(2 / 9)
    assert found["macro_recall"] == pytest.approx(1 / 3)
    # balanced_accuracy_score: 3 of 4 and 1 of 2.
    assert averages("010010", "010001")["balanced_accuracy"] == 0.625


def test_an_unparsed_answer_lowers_recall_and_no_precision() -> None:
    # Right 1 and 1, support 2 and 2, predicted 2 and 1: F1 1/2 and 2/3.
    for labels, other in ((["a", "b"], "c"), ([], "c"), ([], ""), ([], "x" * 81)):
        found = averages("aabb", ["a", other, "b", "a"], labels)
        assert found["macro_f1"] == found["weighted_f1"] == pytest.approx((1 / 2 + 2 / 3) / 2)
        assert found["micro_f1"] == pytest.approx(4 / 7)
        assert found["macro_precision"] == 0.75
        assert found["macro_recall"] == found["balanced_accuracy"] == 0.5


def test_classes_weigh_by_their_samples_in_the_weighted_average_only() -> None:
    # Class a: 3 of 3 right, said 4 times, F1 6/7. Class b: 0 of 1, never said, precision 0.
    found = averages("aaab", "aaaa")
    assert found["macro_f1"] == pytest.approx(3 / 7)
    assert found["weighted_f1"] == pytest.approx(9 / 14)
    assert found["micro_f1"] == pytest.approx(3 / 4)
    assert found["macro_precision"] == pytest.approx(3 / 8)


def test_a_label_that_is_nobodys_class_in_a_group_is_no_class_of_it() -> None:
    assert averages("aa", "ac", ["a", "c"])["macro_f1"] == pytest.approx(2 / 3)
    assert averages("aac", "acc", ["a", "c"])["macro_f1"] == pytest.approx(2 / 3)


def test_a_groups_matrix_by_head() -> None:
    answers = [("Receipt", "receipt"), ("invoice", "receipt"), ("a poem", "receipt"), ("invoice ", "INVOICE")]
    matrix = confusion_of(sums_of(measure(Classification(), [(answer, [true]) for answer, true in answers])))
    assert matrix == Confusion(
        labels=("invoice", "receipt"),
        counts=((1, 0, 0), (1, 1, 1)),
        classes=(
            ClassScores(label="invoice", precision=0.5, recall=1.0, f1=2 / 3, support=1, predicted=2),
            ClassScores(label="receipt", precision=1.0, recall=1 / 3, f1=0.5, support=3, predicted=1),
        ),
    )


def test_a_class_that_is_never_said_has_precision_zero() -> None:
    matrix = confusion_of(sums_of(measure(Classification(), [("b", ["a"]), ("b", ["b"])])))
    assert matrix is not None
    assert matrix.classes[0] == ClassScores(label="a", precision=0.0, recall=0.0, f1=0.0, support=1, predicted=0)


def test_values_are_of_the_sample_and_the_first_reference_that_matches_is_its_class() -> None:
    measures = measure(
        Classification(), [("B", ["a", "b"]), ("c", ["a", "b"]), ("", ["a"]), ("a", []), ("a", ["", " "])]
    )
    assert measures.values == [1.0, 0.0, 0.0, None, None]
    assert measures.reasons == [None, None, None, "no_reference", "no_class"]
    assert sums_of(measures) == {"cell:b|b": 1, "cell:a|c": 1, "cell:a|__unparsed__": 1, "count": 3}


def test_a_reference_outside_the_labels_is_no_class() -> None:
    measures = measure(Classification(labels=["A", "b"]), [("a", ["c"]), ("a", ["c", "a"]), ("c", ["a"])])
    assert measures.values == [None, 1.0, 0.0]
    assert measures.reasons == ["no_class", None, None]
    assert measures.statistics["cell:a|__unparsed__"][2] == 1.0


def test_a_text_of_over_eighty_characters_names_no_class() -> None:
    longest, longer = "x" * MAX_CLASS_CHARS, "x" * (MAX_CLASS_CHARS + 1)
    measures = measure(Classification(), [(longest, [longest]), (longer, [longest]), (longest, [longer])])
    assert measures.values == [1.0, 0.0, None]
    assert measures.reasons[2] == "no_class"


@pytest.mark.parametrize(
    ("true", "predicted", "name"),
    [
        ("a", "b", "cell:a|b"),
        ("a", None, "cell:a|__unparsed__"),
        ("__unparsed__", "__unparsed__", "cell:%5F_unparsed__|%5F_unparsed__"),
        ("a|b", "c", "cell:a%7Cb|c"),
        ("a", "b|c", "cell:a|b%7Cc"),
        ("100%", "%7C", "cell:100%25|%257C"),
        ("счёт", "a\x00", "cell:счёт|a%00"),
        ("\ud800", "\u2028", "cell:%ED%A0%80|%E2%80%A8"),
    ],
)
def test_a_cells_name_says_its_classes(true: str, predicted: str | None, name: str) -> None:
    assert cell_name(true, predicted) == name


LABELS = st.text(alphabet="ab|%57CF_:\x00\ud800é", min_size=1, max_size=4) | st.just(UNPARSED)


@given(first=st.tuples(LABELS, LABELS | st.none()), second=st.tuples(LABELS, LABELS | st.none()))
def test_two_pairs_of_classes_have_two_names(first: tuple[str, str | None], second: tuple[str, str | None]) -> None:
    assert (cell_name(*first) == cell_name(*second)) == (first == second)
    cell_name(*first).encode()


@given(st.lists(LABELS, min_size=1, max_size=5, unique=True))
def test_a_matrix_has_the_labels_back(labels: list[str]) -> None:
    matrix = confusion_of({cell_name(label, label): 1.0 for label in labels})
    assert matrix is not None
    assert matrix.labels == tuple(sorted(labels))
    assert [row[no] for no, row in enumerate(matrix.counts)] == [1] * len(labels)


def plain(true: Sequence[str], answer: Sequence[str], average: Average) -> float:
    """The averages of scikit-learn's user guide, one class at a time."""
    right, precision, recall, f1 = [], [], [], []
    classes = sorted(set(true))
    for label in classes:
        tp = sum(t == s == label for t, s in zip(true, answer, strict=True))
        p, r = tp / max(answer.count(label), 1), tp / true.count(label)
        right.append(tp)
        precision.append(p)
        recall.append(r)
        f1.append(2 * p * r / (p + r) if tp else 0.0)
    match average:
        case "micro_f1":
            return 2 * sum(right) / (len(true) + sum(answer.count(label) for label in classes))
        case "weighted_f1":
            return sum(true.count(label) * f for label, f in zip(classes, f1, strict=True)) / len(true)
        case "macro_f1":
            return sum(f1) / len(classes)
        case "macro_precision":
            return sum(precision) / len(classes)
        case _:
            return sum(recall) / len(classes)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcde")), min_size=1, max_size=12))
def test_any_group_agrees_with_the_plain_definition(samples: list[tuple[str, str]]) -> None:
    true, answer = [true for true, _ in samples], [answer for _, answer in samples]
    for profile, value in averages(true, answer).items():
        assert value == pytest.approx(plain(true, answer, profile))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abcd")), min_size=1, max_size=8), st.data())
def test_a_part_of_a_run_is_combined_as_if_it_were_the_whole(
    samples: list[tuple[str, str]], data: st.DataObject
) -> None:
    whole = measure(Classification(), [(answer, [true]) for true, answer in samples])
    rows = data.draw(st.lists(st.integers(0, len(samples) - 1), min_size=1, unique=True))
    sums = {name: math.fsum(column[row] for row in rows) for name, column in whole.statistics.items()}
    true, answer = [samples[row][0] for row in rows], [samples[row][1] for row in rows]
    for profile in Classification.profiles:
        assert average_of(sums, profile) == pytest.approx(plain(true, answer, profile))


def test_nothing_scored_has_no_value() -> None:
    for sums in ({}, {"count": 0.0}, {"cell:a|a": 0.0, "count": 0.0}):
        assert confusion_of(sums) is None
        assert all(Classification(profile=profile).combine(sums) is None for profile in Classification.profiles)


def test_a_column_reads_as_numbers() -> None:
    column = measure(Classification(), [("a", ["a"]), ("b", ["a"]), ("a", ["a"])]).statistics["cell:a|a"]
    assert (len(column), list(column), column[1:], column[-1]) == (3, [1.0, 0.0, 1.0], [0.0, 1.0], 1.0)


def test_a_row_of_many_cells_names_its_own() -> None:
    measures = measure(Classification(), [(f"class {no}", [f"class {no}"]) for no in range(1000)])
    assert measures[7].statistics == {"cell:class 7|class 7": 1.0, "count": 1.0}


@pytest.mark.parametrize("labels", ["receipt", [1], [""], [" "], ["x" * 81]])
def test_labels_that_are_no_list_of_names_are_refused(labels: object) -> None:
    with pytest.raises(InvalidInput, match="label"):
        Classification(labels=labels)
