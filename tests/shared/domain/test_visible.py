from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.domain.visible import HIDDEN, visible


def test_control_characters_are_replaced_by_their_escapes() -> None:
    assert visible("a\x1b[2J\x07\x9b1m\u202eb\u2028\ud800") == "a\\x1b[2J\\x07\\x9b1m\\u202eb\\u2028\\ud800"


def test_line_feeds_and_tabs_are_kept_only_on_request() -> None:
    assert visible("a\n\tb\r") == "a\n\tb\\x0d"
    assert visible("a\n\tb", keep="") == "a\\x0a\\x09b"


@given(st.text())
def test_no_hidden_character_is_left(text: str) -> None:
    assert HIDDEN.search(visible(text, keep="")) is None
    visible(text).encode()


def test_ordinary_text_stays_as_it_is() -> None:
    assert visible("Größe – 価格 \N{GRINNING FACE}") == "Größe – 価格 \N{GRINNING FACE}"
