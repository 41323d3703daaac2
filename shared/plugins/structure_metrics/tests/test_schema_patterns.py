"""Patterns of schemas: ECMA-262's meaning in an engine that cannot hang."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.wording import Wording
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_structure_metrics.patterns import finds


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("b", "abc", True),
        ("^b", "abc", False),
        ("^a$", "a\n", False),
        ("^[0-9]{3}$", "123", True),
        (r"^\d$", "٣", False),  # an Arabic three
        (r"^\w+$", "Ёж", False),
        (r"^\p{L}+$", "Ёж", True),
        (r"^\u0401\u0436$", "Ёж", True),
        (r"^[\u0400-\u04FF]+$", "Ёж", True),
        (r"^\\u0401$", r"\u0401", True),
        (r"^a\/b\.c$", "a/b.c", True),
        (r"^\S+$", "1\u00a0234", False),
        (r"^\d+\s\d+$", "1\u00a0234", True),
        (r"^[\d\s]+$", "1\u00a0234", True),
        (r"^[^\S ]$", "\t", True),
        (r"^[\s\S]$", "\u00a0", True),
        ("^.$", "\u2028", False),
        ("^[.]$", "x", False),
        (r"^[\]]$", "]", True),
        ("^[[]$", "[", True),
        ("^.$", "\ud800", True),
        ("^$", "", True),
        ("(?<year>[0-9]{4})", "in 2024", True),
    ],
)
def test_a_pattern_is_searched_for(pattern: str, text: str, expected: bool) -> None:
    assert finds(pattern)(text) is expected


@pytest.mark.parametrize(
    "pattern", ["(?=a)", "(?<!a)b", "(a)\\1", "a{1001}", "(", "[]a]", "[^]", "\\ud83d\\ude00", "\ud800", "a\\"]
)
def test_what_cannot_be_run_is_refused_with_a_reason(pattern: str, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        finds(pattern)
    wording(refused.value)
    assert refused.value.code == "invalid_schema"


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", "(.*)*x"])
def test_a_pattern_that_backtracks_for_ever_elsewhere_comes_back(pattern: str) -> None:
    assert finds(pattern)("a" * 100_000 + "b") is False


@given(text=st.text(alphabet="ab \t\n\r\v\u00a0\u2028\u3000\ufeff\u200b9", max_size=4))
def test_white_space_is_that_of_ecma(text: str) -> None:
    blank = "\t\v\f\r\n \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))
    assert finds(r"^\s*$")(text) == all(char in blank for char in text)
    assert finds(r"\S")(text) == any(char not in blank for char in text)
    assert finds("^.*$")(text) == (re.search("[\n\r\u2028\u2029]", text) is None)
