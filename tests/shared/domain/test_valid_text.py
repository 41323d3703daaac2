from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.domain.valid_text import storable, storable_json, valid_unicode


def test_lone_surrogates_are_replaced_and_pairs_are_joined() -> None:
    assert valid_unicode("a\ud800\ud83d\ude00\0") == "a\N{REPLACEMENT CHARACTER}\N{GRINNING FACE}\0"
    assert valid_unicode(None) is None


def test_stored_text_has_no_nul() -> None:
    assert storable("a\0\udc00") == "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"
    assert storable(None) is None


def test_every_name_and_text_of_a_json_object_becomes_storable() -> None:
    document = storable_json({"a\0": ["\ud800", {"b": "\0"}, 1.5, None, True], "c": "ü"})
    bad = "\N{REPLACEMENT CHARACTER}"
    assert document == {f"a{bad}": [bad, {"b": bad}, 1.5, None, True], "c": "ü"}


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_every_text_can_be_encoded_and_valid_text_stays_as_it_is(text: str) -> None:
    repaired = valid_unicode(text)
    repaired.encode()
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert repaired == text
