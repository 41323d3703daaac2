"""Extraction is named and versioned: what each extractor reads, and what it says where there is nothing."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared.scoring.reading import read, spec_of
from tests.support.wording import Wording
from vlmhyperbench.domain.specs import ExtractorSpec
from vlmhyperbench.scoring.extraction import TEXT, extract, open_extractor
from vlmhyperbench.scoring.extractors import EXTRACTORS
from vlmhyperbench_sdk.errors import InvalidInput, NotFound, Unavailable

SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}
PARAMS: dict[str, dict[str, object]] = {"regex": {"pattern": "a+"}}


def test_the_default_is_the_answer_as_it_is() -> None:
    assert TEXT.label == "text@1"
    assert extract([" Berlin\n", ""]).texts == [" Berlin\n", ""]
    assert open_extractor(TEXT).read(" Berlin\n") == " Berlin\n"


def test_a_label_names_the_version_and_tells_params_apart() -> None:
    labels = {ExtractorSpec(name="regex", params={"pattern": pattern}).label for pattern in ("a", "b")}
    assert len(labels) == 2
    assert all(label.startswith("regex@1 ") for label in labels)


def test_an_unknown_extractor_is_refused_with_the_nearest_name(wording: Wording) -> None:
    with pytest.raises(NotFound) as refused:
        open_extractor(ExtractorSpec(name="jsn"))
    wording(refused.value)
    with pytest.raises(NotFound, match=r"no version 2. Write text:1"):
        open_extractor(ExtractorSpec(version=2))
    for changed in ("final_answer", "number", "choice"):
        with pytest.raises(NotFound, match=f"no version 1. Write {changed}:2"):
            open_extractor(ExtractorSpec(name=changed))
    with pytest.raises(NotFound, match="after_reasoning, boxed"):
        open_extractor(ExtractorSpec(name="qqq"))


@pytest.mark.parametrize(
    ("name", "params", "complaint"),
    [
        ("text", {"strip": True}, "strip: Extra inputs"),
        ("regex", {}, "pattern: Field required"),
        ("regex", {"pattern": "(?=a)"}, "RE2's syntax"),
        ("choice", {"letters": "ab"}, "letters: String should match"),
        ("json", {"schema": {"type": "thing"}}, "at schema"),
    ],
)
def test_params_that_cannot_be_are_refused_at_the_door(name: str, params: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        open_extractor(spec_of(name, params))


@pytest.mark.parametrize(
    ("name", "answer", "expected"),
    [
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
        ("json", ' {"a": 1} ', '{"a": 1}'),
        ("json", '```json\n{"a": 1}\n```', "<no_json>"),
        ("json", "", "<no_json>"),
        ("json_repaired", 'Here: {"a": 1}!', '{"a": 1}'),
        ("json_repaired", "nothing", "<no_json>"),
    ],
)
def test_what_an_extractor_reads(name: str, answer: str, expected: str) -> None:
    assert read(name, answer) == expected


def test_a_pattern_gives_its_group_or_its_match() -> None:
    assert read("regex", "Total: 5; Total: 6", pattern=r"Total: (\d)") == "6"
    assert read("regex", "Total: 5; Total: 6", pattern=r"Total: (\d)", which="first") == "5"
    assert read("regex", "TOTAL 5", pattern="total", ignore_case=True) == "TOTAL"
    assert read("regex", "TOTAL 5", pattern="total") == "<no_match>"
    assert read("regex", "TOTAL 5", pattern="total", which="first") == "<no_match>"


BLOCKS = (
    "<|ref|>title<|/ref|><|det|>[[79, 62, 391, 95]]<|/det|>\n# Invoice\n\n"
    "<|ref|>text<|/ref|><|det|>[[79, 120, 900, 180]]<|/det|>\nTotal: 12.50\n"
)
"""DeepSeek-OCR's Markdown, in the form of its README."""
WORDS = "<|ref|>Invoice<|/ref|><|det|>[[79, 62, 391, 95]]<|/det|>\n<|ref|>12.50<|/ref|><|det|>[[1, 2, 3, 4]]<|/det|>"


def test_boxes_are_left_out_and_what_they_are_about_stays() -> None:
    assert read("without_boxes", BLOCKS) == "# Invoice\n\nTotal: 12.50"
    assert read("without_boxes", WORDS, keep="ref") == "Invoice\n12.50"
    assert read("without_boxes", "Total: 12.50") == "Total: 12.50"
    assert read("without_boxes", "Total: 12.50", keep="ref") == "<no_ref>"
    assert read("without_boxes", "a <|ref|>text<|/ref|><|det|>[[79, 1") == "a"


def test_a_match_without_its_group_is_passed_over() -> None:
    assert read("regex", "5 x", pattern=r"(\d)|x") == "5"
    assert read("regex", "x 5 6", pattern=r"(\d)|x", which="first") == "5"
    assert read("regex", "ab", pattern="a(x)?b") == "<no_group>"
    assert read("regex", "ab", pattern="a(x)?b", which="first") == "<no_group>"


def test_without_its_library_a_pattern_says_what_to_install(monkeypatch: pytest.MonkeyPatch, wording: Wording) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(Unavailable) as refused:
        open_extractor(ExtractorSpec(name="regex", params={"pattern": "a"}))
    wording(refused.value)


def test_a_pattern_that_would_explode_elsewhere_ends() -> None:
    assert read("regex", "a" * 100_000 + "!", pattern="(a+)+$") == "<no_match>"


def test_json_gives_one_value_by_its_path() -> None:
    answer = '{"seller": [{"name": "Acme", "vat": 7.5}]}'
    assert read("json", answer, path="seller.0.name") == "Acme"
    assert read("json", answer, path="seller.0") == '{"name":"Acme","vat":7.5}'
    assert read("json", answer, path="seller.0.vat") == "7.5"
    assert read("json", answer, path="seller.1") == "<no_field: seller.1>"
    assert read("json", answer, path="seller.0.name.x") == "<no_field: seller.0.name.x>"


@pytest.mark.parametrize("number", ["12.50", "1e2", "-0", "1E+2", "0.10000000000000000000001", "12345678901234567890"])
def test_a_number_in_json_keeps_its_digits(number: str) -> None:
    answer = f'{{"a": {{"total": {number}}}, "b": [{number}, "12"]}}'
    assert read("json", answer) == answer
    assert read("json", answer, path="a.total") == number
    assert read("json", answer, path="b.0") == number
    assert read("json", answer, path="b") == f'[{number},"12"]'
    assert read("json_repaired", f"Here: {answer}", path="a") == f'{{"total":{number}}}'
    assert read("json", f'{{"total": {number}}}', path="total", schema=SCHEMA) == number


@given(st.integers(), st.text("0123456789", max_size=30), st.sampled_from(["", "e0", "E-5", "e+12"]))
def test_a_number_that_is_read_by_path_is_what_stands_there(whole: int, part: str, power: str) -> None:
    number = f"{whole}{'.' if part else ''}{part}{power}"
    assert read("json", f'{{"total":{number}}}', path="total") == number


def test_half_a_character_is_read_as_the_replacement_character() -> None:
    assert read("json", r'{"a": "\ud800x"}', path="a") == "\N{REPLACEMENT CHARACTER}x"
    assert read("json", r'{"a": {"b": "\ud800"}}', path="a") == '{"b":"\N{REPLACEMENT CHARACTER}"}'
    assert read("json", r'{"a": {"\udfff": 1}}', path="a") == '{"\N{REPLACEMENT CHARACTER}":1}'
    assert read("json", r'{"a": "\ud83d\ude00"}', path="a") == "\N{GRINNING FACE}"
    assert read("text", "a\ud800\N{EURO SIGN}") == "a\N{REPLACEMENT CHARACTER}\N{EURO SIGN}"
    assert read("first_line", "\ud83d\ude00") == "\N{GRINNING FACE}"
    strict = {"type": "object", "additionalProperties": {"type": "string"}}
    complaint = "<schema: \N{REPLACEMENT CHARACTER}"
    assert read("json", r'{"\ud800": 1}', schema=strict).startswith(complaint)


def test_json_that_does_not_match_the_schema_is_unreadable() -> None:
    assert read("json", '{"total": 5}', schema=SCHEMA) == '{"total": 5}'
    assert read("json", '{"total": "5"}', schema=SCHEMA).startswith("<schema: total: ")
    assert read("json", "{}", schema=SCHEMA) == "<schema: total: Field required>"
    assert read("json", "5", schema=SCHEMA).startswith("<schema: the value: ")


def test_an_array_is_repaired_where_one_is_meant() -> None:
    assert read("json_repaired", "Order: [2, 1]", opening="[") == "[2, 1]"


_PIECES = [
    *'{}[],:"', "{}", '{"a":', r"\ud800", r"\udc00", "\ud800", r"\u0000", "\\", "1", "-1.50e3", "1,234.5", "null", "a",
    "1e999", "A", "(B)", " or ", "not ", ". ", "?", "\n", "```", "Answer:", "answer is ", r"\boxed{", "</think>", "$",
]  # fmt: skip
_SCHEMAS: list[object] = [
    None,
    SCHEMA,
    {"type": "object", "additionalProperties": {"type": "string", "pattern": "a"}},
    {
        "anyOf": [
            {"enum": ["a", 1, None]},
            {"type": "array", "items": {"type": "integer"}},
            {"type": ["string", "null"]},
        ]
    },
]
_PARAMS = {
    "number": st.fixed_dictionaries({"which": st.sampled_from(["first", "last"]), "decimal": st.sampled_from(".,")}),
    "choice": st.fixed_dictionaries({"letters": st.sampled_from(["ABCD", "ABCDEFGHI"])}),
    "regex": st.sampled_from([{"pattern": "a+"}, {"pattern": r"(\d)|."}, {"pattern": "(a)?", "which": "first"}]),
    **dict.fromkeys(
        ("json", "json_repaired"),
        st.fixed_dictionaries({"path": st.sampled_from([None, "a", "0", "a.b"]), "schema": st.sampled_from(_SCHEMAS)}),
    ),
}
_ANY_CHARACTER = st.characters(exclude_categories=[])
_READINGS = st.sampled_from(sorted(EXTRACTORS)).flatmap(
    lambda name: st.tuples(st.just(name), _PARAMS.get(name, st.just({})))
)
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(_ANY_CHARACTER),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("ab") | st.text(_ANY_CHARACTER), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    _READINGS,
    st.text(_ANY_CHARACTER)
    | st.lists(st.sampled_from(_PIECES), max_size=20).map("".join)
    | _JSON.map(json.dumps)
    | _JSON.map(lambda value: f"```{json.dumps(value, ensure_ascii=False)}"),
)
def test_no_extractor_raises_on_any_text_and_what_it_says_can_be_stored(
    reading: tuple[str, dict[str, object]], answer: str
) -> None:
    name, params = reading
    extracted = extract([answer], extractor=spec_of(name, params))
    text, reason = extracted.texts[0], extracted.reasons[0]
    assert (text is None) != (reason is None)
    said = text or reason or ""
    assert said.encode("utf-8").decode() == said


@pytest.mark.parametrize("name", EXTRACTORS)
@pytest.mark.parametrize(
    "piece",
    ["7", "1,000,", "A ", "answer is ", "so ", "####", r"\boxed{", "<|ref|>", "</think>", "*", "\n", "{", "\ud800"],
)
def test_a_hostile_megabyte_ends(name: str, piece: str) -> None:
    answer = piece * (1_000_000 // len(piece)) + "x"  # what is quadratic would take hours
    extracted = extract([answer], extractor=spec_of(name, PARAMS.get(name, {})))
    assert (extracted.texts[0] is None) != (extracted.reasons[0] is None)


@pytest.mark.parametrize("name", EXTRACTORS)
def test_every_extractor_says_what_it_is(name: str) -> None:
    assert EXTRACTORS[name].title
    assert EXTRACTORS[name].__doc__
