"""IFEval by the definitions of its authors: of every instruction a response that follows it, and one that does not."""

from __future__ import annotations

import pytest
from scoring_support import combined

from vlmhyperbench_sdk.types import JsonObject, JsonValue, Measures
from vlmhyperbench_text_metrics.ifeval import IfEval
from vlmhyperbench_text_metrics.instructions import CHECKS, UNCHECKED

CAPITALS = "change_case:capital_word_frequency"
NO_COMMA, TITLE, OTHER = "punctuation:no_comma", "detectable_format:title", "change_case:english_capital"


def _measured(profile: str, response: str, *instructions: tuple[str, JsonObject]) -> Measures:
    names: list[JsonValue] = [name for name, _ in instructions]
    arguments: list[JsonValue] = [dict(own) for _, own in instructions]
    about: JsonObject = {"instruction_id_list": names, "kwargs": arguments}
    return IfEval(profile=profile).measure([response], [[]], metadata=[about])


EXAMPLES: list[tuple[str, JsonObject, str, str]] = [
    ("keywords:existence", {"keywords": ["Mom", "a.b"]}, "MOM says a.b", "Mom says aXb"),
    ("keywords:frequency", {"keyword": "war", "frequency": 2, "relation": "at least"}, "wars and War", "war"),
    ("keywords:frequency", {"keyword": "war", "frequency": 1, "relation": "less than"}, "peace", "warm"),
    ("keywords:forbidden_words", {"forbidden_words": ["rock"]}, "rocky", "a Rock."),
    ("keywords:letter_frequency", {"letter": "#", "let_frequency": 2, "let_relation": "at least"}, "#a #b", "#a"),
    ("length_constraints:number_words", {"num_words": 3, "relation": "less than"}, "two-words", "it's two-words"),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "***a *** b\n***", "a *** *** b"),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Weekend"},
        "one\n\n'weekend's end",
        "one\n\n\n\nweekend",
    ),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[[a] [b]", "[a] [b\n]"),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, "so\np. P.s bye", "P.S. bye"),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "p. s. bye", "PS bye"),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n - b", "* a\n** b"),
    ("detectable_format:number_bullet_lists", {"num_bullets": 1}, "*\n* a", "*\n\n* a"),
    ("detectable_format:constrained_response", {}, "So: My answer is no.", "My answer is No."),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 1}, "*a* b", "* * ** **"),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "Day", "num_sections": 2},
        "Day 1 a Day2 b",
        "day 1 a Day 2 b",
    ),
    ("detectable_format:json_format", {}, '```JSON\n{"a": 1}\n```', "[" * 100_000),
    (TITLE, {}, "a <<b>> c", "<<>> <<\n>>"),
    ("combination:two_responses", {}, "******a******b", "a******a"),
    ("combination:two_responses", {}, "a ****** b", "a************b"),
    ("combination:repeat_prompt", {"prompt_to_repeat": " Say it. "}, "\nSAY it. Done", "I say it."),
    ("startend:end_checker", {"end_phrase": "The End"}, '"so the end" ', "the end."),
    ("startend:quotation", {}, ' "a" ', '"'),
    (CAPITALS, {"capital_frequency": 3, "capital_relation": "at least"}, "IT'S. So U.S. it is", "NASA, OK, It's A1c"),
    (CAPITALS, {"capital_frequency": 2, "capital_relation": "less than"}, "STOP! stop", "I CANNOT"),
    (NO_COMMA, {}, "a; b", "a, b"),
]


@pytest.mark.parametrize(("name", "arguments", "right", "wrong"), EXAMPLES)
def test_an_instruction_is_followed_or_not(name: str, arguments: JsonObject, right: str, wrong: str) -> None:
    assert _measured("prompt_strict", right, (name, arguments)).values == [1.0]
    assert _measured("prompt_strict", wrong, (name, arguments)).values == [0.0]
    assert _measured("prompt_loose", " \n ", (name, arguments)).values == [0.0]


def test_every_instruction_of_the_benchmark_is_checked_or_left_out_by_name() -> None:
    assert {name for name, *_ in EXAMPLES} == set(CHECKS)
    assert len(CHECKS) + len(UNCHECKED) == 25
    assert set(UNCHECKED).isdisjoint(CHECKS)
    for name, reason in UNCHECKED.items():
        assert f"| `{name}` |" in str(IfEval.__doc__)
        assert f"`{reason}` |" in str(IfEval.__doc__)


def test_words_in_capitals_are_those_of_the_tokenizer_of_the_authors() -> None:
    """Contractions are two words, as NLTK's tokenizer has them, also before the full stop of a sentence."""
    for text, count in [
        ("IT'S. NO", 3),
        ('"GONNA."', 2),
        ("U.S.A. ok", 1),
        ("A  \n B", 2),
        ("ÄÖ 1 a", 1),
        ("3D X2", 2),
    ]:
        for relation, holds in (("at least", 1.0), ("less than", 0.0)):
            arguments: JsonObject = {"capital_frequency": count, "capital_relation": relation}
            assert _measured("prompt_strict", text, (CAPITALS, arguments)).values == [holds], text


def test_the_loose_reading_forgives_a_first_and_a_last_line_and_asterisks() -> None:
    response = 'Sure, here it is:\n*"<<no comma>>"*\nAnything else, sir?'
    instructions: list[tuple[str, JsonObject]] = [(NO_COMMA, {}), ("startend:quotation", {}), (TITLE, {})]
    assert _measured("instruction_strict", response, *instructions).values == [pytest.approx(1 / 3)]
    assert _measured("instruction_loose", response, *instructions).values == [1.0]
    assert _measured("prompt_strict", response, *instructions).values == [0.0]
    assert _measured("prompt_loose", response, *instructions).values == [1.0]


def test_a_prompt_weighs_as_many_as_it_has_instructions_only_at_instruction_level() -> None:
    about: list[JsonObject] = [
        {"instruction_id_list": [NO_COMMA], "kwargs": [{}]},
        {"instruction_id_list": [NO_COMMA, TITLE, "startend:quotation"], "kwargs": [{}, {}, {}]},
    ]
    prompts, instructions = (
        combined(metric, metric.measure(["a", "b"], [[], []], metadata=about))
        for metric in (IfEval(), IfEval(profile="instruction_strict"))
    )
    assert (prompts, instructions) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("about", "profile", "reason"),
    [
        ({}, "prompt_strict", "no_instructions"),
        ({"instruction_id_list": [NO_COMMA], "kwargs": []}, "prompt_strict", "bad_instruction"),
        ({"instruction_id_list": ["keywords:existence"], "kwargs": [{}]}, "instruction_loose", "bad_instruction"),
        (
            {"instruction_id_list": [NO_COMMA, OTHER], "kwargs": [{}, {}]},
            "prompt_loose",
            "unchecked_english_capital",
        ),
        ({"instruction_id_list": [OTHER], "kwargs": [{}]}, "instruction_strict", "unchecked_english_capital"),
        ({"instruction_id_list": [NO_COMMA, "x:y"], "kwargs": [{}, {}]}, "instruction_loose", "unknown_instruction"),
        ({"instruction_id_list": [NO_COMMA, OTHER], "kwargs": [{}, {}]}, "instruction_strict", None),
    ],
)
def test_what_cannot_be_checked_is_unscored_with_a_reason(about: JsonObject, profile: str, reason: str | None) -> None:
    measures = IfEval(profile=profile).measure(["text"], [[]], metadata=[about])
    assert measures.reasons == [reason]
    assert measures.values == [1.0 if reason is None else None]


def test_the_result_says_how_many_instructions_of_scored_samples_were_not_checked() -> None:
    names: list[JsonValue] = [NO_COMMA, OTHER, "language:response_language"]
    about: list[JsonObject] = [
        {"instruction_id_list": names, "kwargs": [{}, {}, {}]},
        {"instruction_id_list": [NO_COMMA], "kwargs": [{}]},
        {"instruction_id_list": [OTHER], "kwargs": [{}]},
    ]
    measures = IfEval(profile="instruction_strict").measure(["a", "a,", "a"], [[]] * 3, metadata=about)
    assert measures.statistics == {"correct": [1, 0, 0], "count": [1, 1, 0], "left_out": [2, 0, 0]}
    assert measures.values == [1.0, 0.0, None]
    prompts = IfEval().measure(["a", "a,", "a"], [[]] * 3, metadata=about)
    assert prompts.values == [None, 0.0, None]
    assert "left_out" not in prompts.statistics


@pytest.mark.parametrize(
    "text",
    [
        "\n" * 300_000,
        " " * 300_000,
        "<<" * 150_000,
        "[" * 300_000,
        "a. " * 100_000,
        "." + " )" * 100_000,
        "*\n\n" * 100_000,
    ],
)
def test_a_long_response_takes_time_in_proportion(text: str) -> None:
    """A search that grows with the square of the length takes hours here."""
    for name, arguments, *_ in EXAMPLES:
        assert _measured("prompt_loose", text, (name, arguments)).reasons == [None]
