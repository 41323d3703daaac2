"""What of an answer is the vote, and when two votes are the same."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench_pipeline.extraction import extractor
from vlmhyperbench_pipeline.json_votes import read_json
from vlmhyperbench_pipeline.normalising import LOCALES, NORMALISERS, normaliser, plain
from vlmhyperbench_pipeline.vote import Vote
from vlmhyperbench_sdk.aggregation import MemberAnswer
from vlmhyperbench_sdk.jsontext import canonical


def vote_of(text: str, **params: object) -> str | None:
    """Return the key of a single answer's vote."""
    return Vote(**params).aggregate([MemberAnswer(name="m", text=text)]).key  # type: ignore[arg-type]  # any params


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("B", "B"),
        ("(b)", "B"),
        ("The answer is B.", "B"),
        ("A or B", None),
        ("Abacus", None),
        ("none of them", None),
        ("A, surely A", "A"),
    ],
)
def test_a_choice_is_the_only_one_that_is_named(text: str, choice: str | None) -> None:
    assert vote_of(text, extract="choice", choices=["A", "B", "C"], normalise="exact") == choice


def test_the_longer_of_two_choices_is_read_first() -> None:
    extract = extractor("choice", choices=["not paid", "paid"], pattern=None, pointer=None)
    assert extract is not None
    assert [extract("It is not paid yet."), extract("It is paid.")] == ["not paid", "paid"]


@pytest.mark.parametrize(
    ("pattern", "text", "vote"),
    [
        (r"answer: (\w+)", "answer: one, no, answer: two", "two"),
        (r"\d+", "1 and 22", "22"),
        (r"\d+", "none", None),
        (r"x(\d)?", "x", None),
    ],
)
def test_a_pattern_gives_its_last_match(pattern: str, text: str, vote: str | None) -> None:
    assert vote_of(text, extract="regex", pattern=pattern) == vote


@pytest.mark.parametrize(
    ("pointer", "vote"),
    [
        ("/total", "12.5"),
        ("/items/1/name", "b/c"),
        ("/items/1", '{"name":"b/c"}'),
        ("/items/2", None),
        ("/items/x", None),
        ("/a~1b", "true"),
        ("/nothing", "null"),
        ("/missing", None),
        ("", '{"a/b":true,"items":[1,{"name":"b/c"}],"nothing":null,"total":12.5}'),
    ],
)
def test_a_pointer_gives_a_value_of_the_json(pointer: str, vote: str | None) -> None:
    text = 'So: ```json\n{"total": 12.50, "items": [1, {"name": "b/c"}], "a/b": true, "nothing": null}\n```'
    assert vote_of(text, extract="json_pointer", pointer=pointer, normalise="exact") == vote
    assert vote_of("no json", extract="json_pointer", pointer=pointer) is None


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("  The  Answer. ", "the answer"),
        ("ＬＩＳＢＯＮ", "lisbon"),
        ("Straße", "strasse"),
        ("“quoted”!", "quoted"),
        ("**bold**", "bold"),
        ("-5", "-5"),
        (".5", ".5"),
        ("5%", "5%"),
        ("C#", "c#"),
        ("???", "???"),
        (" \n", None),
    ],
)
def test_text_is_folded_but_signs_and_units_stay(text: str, key: str | None) -> None:
    assert plain(text) == key


@pytest.mark.parametrize(
    ("locale", "text", "key"),
    [
        ("en", "1,234.50", "1234.5"),
        ("en", "1234.5", "1234.5"),
        ("en", "€ 12.00.", "12"),
        ("en", "−7", "-7"),
        ("en", "-0", "0"),
        ("en", "+3", "3"),
        ("en", "1.234,50", None),
        ("en", "12,34", None),
        ("en", "twelve", None),
        ("en", "5%", None),
        ("en", "1" * 101, None),
        ("de", "1.234,50 €", "1234.5"),
        ("fr", "1 234,5", "1234.5"),
        ("ch", "1’234.5", "1234.5"),
        ("en", "12345678901234567890123456789012345678.10", "12345678901234567890123456789012345678.1"),
    ],
)
def test_numbers_are_equal_by_value_in_their_locale(locale: str, text: str, key: str | None) -> None:
    assert vote_of(text, normalise="number", locale=locale) == key


@pytest.mark.parametrize(
    ("order", "text", "key"),
    [
        ("dmy", "03.04.2025", "2025-04-03"),
        ("mdy", "03/04/2025", "2025-03-04"),
        ("ymd", "2025-4-3", "2025-04-03"),
        ("dmy", "2025-04-03T10:00:00Z", "2025-04-03"),
        ("dmy", "03.04/2025", None),
        ("dmy", "03.04.25", None),
        ("dmy", "31.02.2025", None),
        ("dmy", "3.2025.4", None),
        ("dmy", "March", None),
    ],
)
def test_dates_are_iso_in_their_order(order: str, text: str, key: str | None) -> None:
    assert vote_of(text, normalise="date", date_order=order) == key


def test_json_is_equal_by_value() -> None:
    first, second = '{"b": 1.0, "a": [true, "x"]}', 'It is {"a":[true,"x"],"b":1}.'
    assert vote_of(first, normalise="json") == vote_of(second, normalise="json") == '{"a":[true,"x"],"b":1}'
    assert vote_of("nothing", normalise="json") is None
    assert vote_of("[1, 2] then {}", normalise="json") == "[1,2]"
    assert vote_of("1e-99999", normalise="json") == "1e-99999"
    assert vote_of("3e2", normalise="json") == "300"


@given(st.text(st.characters(max_codepoint=0x24F), max_size=40))
def test_a_key_is_its_own_key(text: str) -> None:
    key = plain(text)
    assert key is None or plain(key) == key


@given(st.text(max_size=60), st.sampled_from(NORMALISERS), st.sampled_from(sorted(LOCALES)))
def test_no_text_makes_a_vote_raise(text: str, kind: str, locale: str) -> None:
    normaliser(kind, locale=locale, date_order="dmy")(text)
    for extract, params in (("choice", ["a", "b"]), ("regex", ()), ("json_pointer", ())):
        read = extractor(extract, choices=params, pattern="a(b)?", pointer="/a/0")
        assert read is not None
        read(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON.filter(lambda value: isinstance(value, (dict, list))))
def test_canonical_json_says_the_same(value: object) -> None:
    text = json.dumps(value)
    parsed = read_json(text)
    if parsed is not None:  # a lone surrogate or NUL is refused
        assert json.loads(canonical(parsed[0])) == value
