from __future__ import annotations

import pytest

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench_api.bodies import parse


def test_valid_json_is_returned() -> None:
    assert parse(b'{"a": [1, 2.5, null, true, "\xc3\xa4"]}') == {"a": [1, 2.5, None, True, "ä"]}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not UTF-8"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": -Infinity}', "-Infinity is not JSON"),
        (b'{"a": 1e999}', "finite"),
        (b'{"a": 9223372036854775808}', "64 bits"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON|64 bits"),
        (b'{"a": "\\u0000"}', "body.a contains a NUL"),
        (b'{"a\\u0000": 1}', "NUL"),
        (b'{"a": ["\\ud800"]}', "body.a.0 contains a lone surrogate"),
        (b"[" * 34 + b"]" * 34, "deeper than 32"),
        (b"[" * 100_000, "not JSON|deeper"),
    ],
)
def test_hostile_json_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse(body)


def test_the_largest_integers_are_accepted() -> None:
    assert parse(b"[9223372036854775807, -9223372036854775808]") == [2**63 - 1, -(2**63)]
