"""Extraction is named and versioned: what each extractor reads, and what it says where there is nothing."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.domain.specs import ExtractorSpec
from vlmhyperbench.scoring.extraction import TEXT, extract, open_extractor
from vlmhyperbench.scoring.extractors import EXTRACTORS
from vlmhyperbench_sdk.errors import InvalidInput, NotFound, Unavailable

SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}
PARAMS: dict[str, dict[str, object]] = {"regex": {"pattern": "a+"}}


def read(name: str, answer: str, **params: object) -> str | None:
    """Read one answer; the reason in angle brackets where there is nothing."""
    spec = ExtractorSpec(name=name, params=params)  # type: ignore[arg-type]
    extracted = extract([answer], extractor=spec)
    return extracted.texts[0] if extracted.reasons[0] is None else f"<{extracted.reasons[0]}>"


def test_the_default_is_the_answer_as_it_is() -> None:
    assert TEXT.label == "text@1"
    assert extract([" Berlin\n", ""]).texts == [" Berlin\n", ""]
    assert open_extractor(TEXT).read(" Berlin\n") == " Berlin\n"


def test_a_label_names_the_version_and_tells_params_apart() -> None:
    labels = {ExtractorSpec(name="regex", params={"pattern": pattern}).label for pattern in ("a", "b")}
    assert len(labels) == 2
    assert all(label.startswith("regex@1 ") for label in labels)


def test_an_unknown_extractor_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(NotFound, match=r"no extractor 'jsn'. Write one of: json\."):
        open_extractor(ExtractorSpec(name="jsn"))
    with pytest.raises(NotFound, match=r"no version 2. Write text:1"):
        open_extractor(ExtractorSpec(version=2))
    with pytest.raises(NotFound, match="after_reasoning, boxed"):
        open_extractor(ExtractorSpec(name="qqq"))


@pytest.mark.parametrize(
    ("name", "params", "complaint"),
    [
        ("text", {"strip": True}, "strip: Extra inputs"),
        ("regex", {}, "pattern: Field required"),
        ("regex", {"pattern": "(?=a)"}, "RE2's syntax"),
        ("choice", {"letters": "ab"}, "letters: String should match"),
        ("json", {"schema": {"type": "thing"}}, "no type that is known at schema"),
    ],
)
def test_params_that_cannot_be_are_refused_at_the_door(name: str, params: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        open_extractor(ExtractorSpec(name=name, params=params))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "answer", "expected"),
    [
        ("after_reasoning", "<think>2 + 2</think>\n 4 ", "4"),
        ("after_reasoning", "<think>a</think>b</THINK>c", "c"),
        ("after_reasoning", "<think>and then", "<unfinished_reasoning>"),
        ("after_reasoning", "2 < 3", "2 < 3"),
        ("first_line", "\n Berlin \nParis", "Berlin"),
        ("last_line", "Berlin\nParis \n\n", "Paris"),
        ("last_line", " \n", "<empty>"),
        ("final_answer", "It is late.\nThe answer is **12.50 EUR**.\nBye", "12.50 EUR"),
        ("final_answer", "Answer: a\nFinal answer: b", "b"),
        ("final_answer", "sum\n#### 42", "42"),
        ("final_answer", "**Answer:** Berlin", "Berlin"),
        ("final_answer", "Berlin", "<no_final_answer>"),
        ("final_answer", "The answer is", "<no_final_answer>"),
        ("final_answer", "<think>the answer is 1", "<unfinished_reasoning>"),
        ("boxed", r"so \boxed{1} and \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        ("boxed", r"\boxed{1", "<no_box>"),
        ("boxed", "1", "<no_box>"),
        ("number", "1,234.50 EUR of 2,000", "2000"),
        ("number", "from 1,2,3", "3"),
        ("number", "minus \N{MINUS SIGN}5kg", "-5"),
        ("number", "+7, then", "7"),
        ("number", "1e-3", "1e-3"),
        ("number", "v2 is out", "<no_number>"),
        ("choice", "B", "B"),
        ("choice", "(C) because", "C"),
        ("choice", "A. The cat", "A"),
        ("choice", "A dog is shown, so B", "<several_choices>"),
        ("choice", "The answer is (D).", "D"),
        ("choice", "A is wrong. Answer: **C**", "C"),
        ("choice", "none", "<no_choice>"),
        ("choice", "It must be D, I think", "D"),
        ("json", ' {"a": 1} ', '{"a": 1}'),
        ("json", '```json\n{"a": 1}\n```', "<no_json>"),
        ("json", "", "<no_json>"),
        ("json_repaired", 'Here: {"a": 1}!', '{"a": 1}'),
        ("json_repaired", "nothing", "<no_json>"),
    ],
)
def test_what_an_extractor_reads(name: str, answer: str, expected: str) -> None:
    assert read(name, answer) == expected


def test_the_first_number_where_it_is_asked_for() -> None:
    assert read("number", "1,234 of 5", which="first") == "1234"
    assert read("number", "1,2 of 5", which="first") == "1"


def test_a_pattern_gives_its_group_or_its_match() -> None:
    assert read("regex", "Total: 5; Total: 6", pattern=r"Total: (\d)") == "6"
    assert read("regex", "Total: 5; Total: 6", pattern=r"Total: (\d)", which="first") == "5"
    assert read("regex", "TOTAL 5", pattern="total", ignore_case=True) == "TOTAL"
    assert read("regex", "TOTAL 5", pattern="total") == "<no_match>"
    assert read("regex", "TOTAL 5", pattern="total", which="first") == "<no_match>"
    assert read("regex", "ab", pattern="a(x)?b") == "<no_match>"


def test_without_its_library_a_pattern_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(Unavailable, match="with the extra scoring"):
        open_extractor(ExtractorSpec(name="regex", params={"pattern": "a"}))


def test_a_pattern_that_would_explode_elsewhere_ends() -> None:
    assert read("regex", "a" * 100_000 + "!", pattern="(a+)+$") == "<no_match>"


def test_json_gives_one_value_by_its_path() -> None:
    answer = '{"seller": [{"name": "Acme", "vat": 7.5}]}'
    assert read("json", answer, path="seller.0.name") == "Acme"
    assert read("json", answer, path="seller.0") == '{"name":"Acme","vat":7.5}'
    assert read("json", answer, path="seller.0.vat") == "7.5"
    assert read("json", answer, path="seller.1") == "<no_field: seller.1>"
    assert read("json", answer, path="seller.0.name.x") == "<no_field: seller.0.name.x>"


def test_json_that_does_not_keep_to_the_schema_is_none() -> None:
    assert read("json", '{"total": 5}', schema=SCHEMA) == '{"total": 5}'
    assert read("json", '{"total": "5"}', schema=SCHEMA) == "<schema: total: Input should be a valid number>"
    assert read("json", "{}", schema=SCHEMA) == "<schema: total: Field required>"
    assert read("json", "5", schema=SCHEMA).startswith("<schema: the value: ")  # type: ignore[union-attr]


def test_an_array_is_repaired_where_one_is_meant() -> None:
    assert read("json_repaired", "Order: [2, 1]", opening="[") == "[2, 1]"


@given(
    st.sampled_from(sorted(EXTRACTORS)), st.text('{}[]()"\\,.:#*`<>/think ABanswerisoxd019\n', max_size=60) | st.text()
)
def test_no_extractor_raises_on_any_text(name: str, answer: str) -> None:
    extracted = extract([answer], extractor=ExtractorSpec(name=name, params=PARAMS.get(name, {})))  # type: ignore[arg-type]
    assert (extracted.texts[0] is None) != (extracted.reasons[0] is None)


@pytest.mark.parametrize("name", EXTRACTORS)
@pytest.mark.parametrize("piece", ["7", "1,000,", "A ", "answer is ", r"\boxed{", "</think>", "*", "\n", "{", "\ud800"])
def test_a_hostile_megabyte_ends(name: str, piece: str) -> None:
    answer = piece * (1_000_000 // len(piece)) + "x"  # what is quadratic would take hours
    extracted = extract([answer], extractor=ExtractorSpec(name=name, params=PARAMS.get(name, {})))  # type: ignore[arg-type]
    assert (extracted.texts[0] is None) != (extracted.reasons[0] is None)


@pytest.mark.parametrize("name", EXTRACTORS)
def test_every_extractor_says_what_it_is(name: str) -> None:
    assert EXTRACTORS[name].title
    assert EXTRACTORS[name].__doc__
