"""Rules of public benchmarks against their own definitions, with values counted by hand."""

from __future__ import annotations

import pytest
from scoring_support import combined, judged, measure, value_of

from vlmhyperbench_sdk.types import JsonObject, JsonValue
from vlmhyperbench_text_metrics.contains_match import FORMULAS, ContainsMatch
from vlmhyperbench_text_metrics.hallusionbench import HallusionBench
from vlmhyperbench_text_metrics.mathvista import MathVista
from vlmhyperbench_text_metrics.mmmu import Mmmu
from vlmhyperbench_text_metrics.multiple_choice import MultipleChoice
from vlmhyperbench_text_metrics.number_match import NumberMatch
from vlmhyperbench_text_metrics.vqa_accuracy import VqaAccuracy
from vlmhyperbench_text_metrics.yes_no import YesNo

OPTIONS: list[JsonValue] = ["a red car", "two buses", "a bicycle", "nothing"]


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        ("The sign says CENTRE ST.", "centre", 1.0),
        ("CENT\nRE", "cent re", 1.0),
        ("center", "centre", 0.0),
        ("a long text", "", 0.0),
        (" ", "", 1.0),
        ("\N{FULLWIDTH DIGIT ONE}", "1", 0.0),
    ],
)
def test_ocrbench_wants_the_reference_inside_of_the_answer(answer: str, reference: str, expected: float) -> None:
    assert judged(ContainsMatch(), answer, reference, question_type="Regular Text Recognition") == expected


@pytest.mark.parametrize("about", [{"question_type": FORMULAS}, {"dataset": "HME100k"}])
def test_spaces_do_not_count_in_a_formula_and_case_does(about: dict[str, JsonValue]) -> None:
    assert judged(ContainsMatch(), "$ X + 1 $", "X+ 1", **about) == 1.0
    assert judged(ContainsMatch(), "x + 1", "X + 1", **about) == 0.0


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("B", 1.0),
        ("(B)", 1.0),
        ("The answer is **B**. A red car is not there.", 1.0),
        ("I see two buses.", 1.0),
        ("A or B", 0.0),
        ("B is what I would take of all of these options here", 0.0),
        ("", 0.0),
        ("Cannot determine the answer B", 0.0),
        ("Z", 0.0),
        ("two buses or a bicycle", 0.0),
        ("It shows two buses " + "x" * 80, 0.0),
    ],
)
def test_vlmevalkit_reads_the_letter_or_the_only_option_that_occurs(answer: str, expected: float) -> None:
    assert judged(MultipleChoice(), answer, "B", choices=OPTIONS) == expected


def test_options_without_texts_are_a_to_d() -> None:
    assert [value_of(MultipleChoice(), "D", "D"), value_of(MultipleChoice(), "E", "E")] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Let us think. The answer is (J).", 1.0),
        ("the answer is J", 1.0),
        ("the answer is (A), no, the answer is (J)", 0.0),
        ("The Answer Is J", 0.0),
        ("J", 0.0),
    ],
)
def test_mmlu_pro_reads_what_is_announced(answer: str, expected: float) -> None:
    assert value_of(MultipleChoice(profile="mmlu_pro"), answer, "J") == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("B.", 1.0),
        ("(A) is wrong, so (B)", 1.0),
        ("A B", 1.0),
        ("It must be that there are two buses", 1.0),
        ("two buses", 0.0),
        ("who knows", 0.0),
        ("there is no way to tell from it", 0.0),
    ],
)
def test_mmmu_takes_the_last_letter_in_brackets_or_alone(answer: str, expected: float) -> None:
    assert judged(Mmmu(), answer, "B", choices=OPTIONS, question_type="multiple-choice") == expected


def test_of_letters_between_spaces_mmmu_takes_the_last() -> None:
    assert judged(Mmmu(), "not A but B", "B", choices=OPTIONS, question_type="multiple-choice") == 1.0


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        ("The result is 1,234.567", "1234.57", 1.0),
        ("x = 5e3", "5000", 1.0),
        ("It is 24/7", "['24/7', '3.429']", 1.0),
        ("3.43", "['24/7', '3.429']", 1.0),
        ("4", "['24/7', '3.429']", 0.0),
        ("the interval [0, 5)", "[0, 5)", 1.0),
        ("[0, 5]", "[0, 5]", 1.0),
        ("5", "[0, 5]", 0.0),
        ("12", "1", 0.0),
        ("So it is Paris.", "paris", 1.0),
        ("It is Parish", "paris", 1.0),
        ("a", "a", 1.0),
        ("banana", "a", 0.0),
        ("vitamin a deficiency", "A", 1.0),
        ("is :", "x", 0.0),
        ("thus is", "x", 0.0),
    ],
)
def test_open_questions_of_mmmu_match_numbers_and_parts_of_texts(answer: str, reference: str, expected: float) -> None:
    assert judged(Mmmu(), answer, reference, question_type="open") == expected


@pytest.mark.parametrize(
    ("answer", "about", "reference", "expected"),
    [
        ("(B) two buses", {"question_type": "multi_choice", "choices": OPTIONS}, "two buses", 1.0),
        ("B", {"question_type": "multi_choice", "choices": OPTIONS}, "two buses", 1.0),
        ("two bused", {"question_type": "multi_choice", "choices": OPTIONS}, "two buses", 1.0),
        ("", {"question_type": "multi_choice", "choices": OPTIONS}, "nothing", 0.0),
        ("x", {"question_type": "multi_choice"}, "x", 0.0),
        ("14.7", {"answer_type": "integer"}, "14", 1.0),
        ("inf", {"answer_type": "integer"}, "14", 0.0),
        ("fourteen", {"answer_type": "integer"}, "14", 0.0),
        ("1.449", {"answer_type": "float", "precision": 2.0}, "1.45", 1.0),
        ("1.6", {"answer_type": "float"}, "2.0", 1.0),
        ("[1, 2]", {"answer_type": "list"}, "[1, 2]", 1.0),
    ],
)
def test_mathvista_compares_by_the_type_of_the_answer(
    answer: str, about: dict[str, JsonValue], reference: str, expected: float
) -> None:
    assert judged(MathVista(), answer, reference, **about) == expected


@pytest.mark.parametrize(
    ("answer", "about", "reference", "quick", "vlmevalkit"),
    [
        ("The correct option is (B) two buses", {"choices": OPTIONS}, "two buses", 1.0, 1.0),
        ('So: The answer is "two buses".', {"choices": OPTIONS}, "two buses", 1.0, 1.0),
        ("a red van? no: nothing", {"choices": OPTIONS}, "nothing", 0.0, 1.0),
        ("two bused", {"choices": OPTIONS}, "two buses", 1.0, 0.0),
        ('I counted. The answer is "14".', {"answer_type": "integer"}, "14", 1.0, 0.0),
        ("14.0", {"answer_type": "integer"}, "14", 1.0, 0.0),
        (" 14\n", {"answer_type": "integer"}, "14", 1.0, 1.0),
        ("1.449", {"answer_type": "float", "precision": 2.0}, "1.45", 1.0, 0.0),
        ("[1, 2]", {"answer_type": "list"}, "[1, 2]", 1.0, 0.0),
        ("nan", {"answer_type": "float"}, "nan", 1.0, 0.0),
    ],
)
def test_mathvista_is_read_by_the_rules_that_harnesses_try_before_a_model(
    answer: str, about: dict[str, JsonValue], reference: str, quick: float, vlmevalkit: float
) -> None:
    about = {"question_type": "multi_choice" if "choices" in about else "free_form", **about}
    assert judged(MathVista(profile="quick"), answer, reference, **about) == quick
    assert judged(MathVista(profile="vlmevalkit"), answer, reference, **about) == vlmevalkit


SOLUTION = "She has 20 - 2 = 18 left.\n#### 1,018"


@pytest.mark.parametrize(
    ("answer", "strict", "flexible"),
    [
        ("So 1018.\n#### 1018", 1.0, 1.0),
        ("#### $1,018", 0.0, 1.0),
        ("The answer is 1018.", 0.0, 1.0),
        ("1018 of 1020", 0.0, 0.0),
        ("#### 1018.0", 0.0, 0.0),
        ("none", 0.0, 0.0),
        ("#### 1018 and not 7", 1.0, 0.0),
    ],
)
def test_gsm8k_reads_the_announced_or_the_last_number(answer: str, strict: float, flexible: float) -> None:
    assert value_of(NumberMatch(profile="gsm8k_strict"), answer, SOLUTION) == strict
    assert value_of(NumberMatch(profile="gsm8k_flexible"), answer, SOLUTION) == flexible


ANSWERS = [
    ("Yes, it is.", ["yes"]),
    ("There is no cat.", ["yes"]),
    ("Of course", ["no"]),
    ("no", ["No"]),
    ("", ["yes"]),
]


@pytest.mark.parametrize(
    ("profile", "expected"),
    [("f1", 0.4), ("precision", 0.5), ("recall", 1 / 3), ("accuracy", 0.4), ("words", 0.4), ("words_f1", 0.5)],
)
def test_yes_is_the_positive_class(profile: str, expected: float) -> None:
    metric = YesNo(profile=profile)
    assert combined(metric, measure(metric, ANSWERS)) == pytest.approx(expected)


@pytest.mark.parametrize("profile", ["f1", "precision", "recall"])
def test_a_group_in_which_nothing_is_right_is_worth_0(profile: str) -> None:
    metric = YesNo(profile=profile)
    assert combined(metric, measure(metric, [("no", ["no"])])) == 0.0


def test_a_reference_that_is_neither_yes_nor_no_gives_no_value() -> None:
    measures = measure(YesNo(), [("yes", ["maybe"]), ("yes", ["yes", "no"]), ("yes", [])])
    assert measures.reasons == ["no_yes_or_no", "no_yes_or_no", "no_reference"]


def test_textvqa_splits_a_possessive_and_drops_commas_before_it_compares() -> None:
    annotators = ["McDonald's", "mcdonald s", "mcdonalds", "mcdonald 's"]
    assert value_of(VqaAccuracy(profile="textvqa"), "McDonald's?", *annotators) == pytest.approx(0.5)
    assert value_of(VqaAccuracy(profile="textvqa"), "1,000", *["1000"] * 10) == 1.0


def _about(subcategory: str, figure: int, question: int, *, category: str = "VS") -> JsonObject:
    return {
        "category": category,
        "subcategory": subcategory,
        "set_id": "0",
        "figure_id": figure,
        "question_id": str(question),
    }


def test_hallusionbench_wants_every_answer_about_a_figure_or_to_a_question() -> None:
    """Figure chart/1 and question chart/0 are wrong, in one answer that is neither yes nor no."""
    about = [_about("chart", figure, question) for figure in (1, 2) for question in (0, 1)]
    about += [_about("ocr", 1, 0), _about("ocr", 1, 0, category="VD")]
    answers = ["Yes and no", "No.", "yes", "no", "no", "yes, of course"]
    truths = [["Yes"], ["No"], ["Yes"], ["No"], ["Yes"], ["Yes"]]
    values = {}
    for profile in HallusionBench.profiles:
        metric = HallusionBench(profile=profile)
        measures = metric.measure(answers, truths, metadata=about)
        assert measures.values == [0.0, 1.0, 1.0, 1.0, 0.0, 1.0]
        values[profile] = combined(metric, measures)
    assert values == {"facc": 2 / 4, "qacc": 2 / 4}


def test_a_figure_that_is_not_named_is_no_group_of_its_own() -> None:
    metric = HallusionBench()
    about: list[JsonObject] = [{}, {"category": "VS", "subcategory": "chart", "set_id": "0", "figure_id": None}]
    measures = metric.measure(["yes", "no"], [["yes"], []], metadata=about)
    assert (measures.values, measures.reasons) == ([None, None], ["no_group", "no_reference"])
    assert combined(metric, measures) is None
