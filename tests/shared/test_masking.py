"""Secrets in any form are masked in logs and streams, wherever a stream is cut."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench import logs
from vlmhyperbench.logs.masking import SecretMasker, StreamMasker

SECRET = 's3cr/et+ke"y=123'
MASK = "********"


@pytest.fixture
def hidden() -> Iterator[None]:
    handlers, level = logging.getLogger().handlers, logging.getLogger().level
    logs.hide([SECRET])
    yield
    logs.unhide([SECRET])
    logging.getLogger().handlers, logging.getLogger().level = handlers, level


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET, safe=""),
        json.dumps(SECRET)[1:-1],
        base64.b64encode(SECRET.encode()).decode().rstrip("="),
        base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
    ],
)
def test_every_form_of_a_secret_is_masked(form: str) -> None:
    shown = SecretMasker([SECRET]).mask(f"before {form} after")
    assert form not in shown
    assert MASK in shown


@given(st.binary(max_size=5), st.binary(max_size=5))
def test_a_secret_inside_longer_base64_is_masked(before: bytes, after: bytes) -> None:
    text = base64.b64encode(before + SECRET.encode() + after).decode()
    assert MASK in SecretMasker([SECRET]).mask(text)


@given(st.lists(st.sampled_from(["a", "abab", "s3cr", "et", SECRET, SECRET[:5], SECRET[5:], " "]), max_size=12))
def test_a_stream_is_masked_like_the_whole_text(pieces: list[str]) -> None:
    masker = SecretMasker([SECRET])
    stream = StreamMasker(masker)
    shown = "".join(stream.feed(piece) for piece in pieces) + stream.end()
    assert shown == masker.mask("".join(pieces))


@pytest.mark.parametrize("secrets", [["abab"], ["abcd", "abcdef"], ["abcdef", "cdefgh"]])
def test_secrets_that_overlap_stay_hidden_across_pieces(secrets: list[str]) -> None:
    for secret in secrets:
        for cut in range(len(secret) + 1):
            stream = StreamMasker(SecretMasker(secrets))
            shown = stream.feed(f"x{secret[:cut]}") + stream.feed(f"{secret[cut:]}y") + stream.end()
            assert secret not in shown


def test_a_secret_is_masked_until_it_is_unhidden_as_often_as_it_was_hidden() -> None:
    masker = SecretMasker([SECRET])
    masker.add([SECRET])
    masker.forget([SECRET])
    assert masker.mask(SECRET) == MASK
    masker.forget([SECRET])
    assert masker.mask(SECRET) == SECRET


def test_nested_values_are_masked() -> None:
    value = {"a": [SECRET, 1, None], SECRET: b"x" + SECRET.encode(), "e": ValueError(SECRET)}
    assert SECRET not in str(SecretMasker([SECRET]).mask_value(value))


def test_a_log_line_is_json_with_secrets_masked(hidden: None, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure_logging("test", form="json")
    logs.get_logger("room").info("hello", url=f"http://h/?k={quote(SECRET)}", api_key="other", count=3)
    line = json.loads(capsys.readouterr().err)
    assert line["event"] == "hello"
    assert line["service"] == "test"
    assert line["url"] == f"http://h/?k={MASK}"
    assert line["api_key"] == MASK
    assert line["count"] == 3


def test_tracebacks_and_foreign_loggers_are_masked(hidden: None, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure_logging("test", form="console")
    try:
        raise ValueError(f"bad {SECRET}")
    except ValueError:
        logs.get_logger("room").exception("boom")
    logging.getLogger("foreign").warning("said %s", SECRET)
    shown = capsys.readouterr().err
    assert "ValueError" in shown
    assert "said ********" in shown
    assert SECRET not in shown


@pytest.mark.parametrize("size", range(1, len(SECRET)))
def test_the_beginning_of_a_secret_before_a_cut_is_left_out(size: int) -> None:
    masker = SecretMasker([SECRET])
    assert masker.mask_cut(f"the key {SECRET[:size]}… [code={SECRET}]") == f"the key … [code={MASK}]"


def test_text_that_was_not_cut_is_unchanged() -> None:
    masker = SecretMasker([SECRET])
    text = "no key here … and none there: s3cr"
    assert masker.mask_cut(text) == text


def test_a_secret_with_replaced_characters_is_masked() -> None:
    assert SecretMasker([SECRET]).mask("[code=s3cr_et_ke_y_123]") == f"[code={MASK}]"
    assert SecretMasker(["/+=/"]).mask("a____b") == "a____b"
