"""Signed texts for browsers are valid for one purpose, one key and a limited time, and only with the pepper."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vlmhyperbench.domain.tickets import Purpose, Ticket, is_signed, read_ticket, write_ticket, write_token

KEY = "a" * 64


def _ticket(purpose: Purpose = "ticket", **changes: object) -> Ticket:
    sent = {"prefix": "test", "expires_at": 1000, "nonce": "n" * 22, "pepper": "pepper", "key_hmac": KEY}
    result = read_ticket(write_ticket(purpose, **(sent | changes)))
    assert result is not None
    return result


def test_a_signed_text_is_valid_until_it_expires() -> None:
    ticket = _ticket()
    assert (ticket.prefix, ticket.expires_at, ticket.nonce) == ("test", 1000, "n" * 22)
    assert is_signed(ticket, "ticket", now=999.9, pepper="pepper", key_hmac=KEY)
    assert not is_signed(ticket, "ticket", now=1000.0, pepper="pepper", key_hmac=KEY)


@pytest.mark.parametrize(
    "ticket",
    [
        _ticket("session"),
        _ticket(pepper="other"),
        _ticket(key_hmac="b" * 64),
        replace(_ticket(), expires_at=1001),
        replace(_ticket(), prefix="best"),
        replace(_ticket(), nonce="m" * 22),
    ],
)
def test_a_text_that_differs_in_any_field_is_not_valid(ticket: Ticket) -> None:
    assert not is_signed(ticket, "ticket", now=0.0, pepper="pepper", key_hmac=KEY)


def test_no_text_is_valid_without_a_pepper() -> None:
    assert not is_signed(_ticket(pepper=""), "ticket", now=0.0, pepper="", key_hmac=KEY)


@pytest.mark.parametrize("text", ["", "a.b.c.d", "test.1." + "n" * 22, "test.1." + "n" * 22 + "." + "é" * 43])
def test_a_text_of_another_form_is_not_a_ticket(text: str) -> None:
    assert read_ticket(text) is None


def test_the_token_for_writing_is_that_of_one_session_and_no_part_of_it() -> None:
    session = _ticket("session")
    token = write_token(session, pepper="pepper", key_hmac=KEY)
    assert token != session.signature
    others = [replace(session, nonce="m" * 22), replace(session, expires_at=1001), replace(session, prefix="best")]
    assert token not in [write_token(other, pepper="pepper", key_hmac=KEY) for other in others]
    assert token != write_token(session, pepper="pepper", key_hmac="b" * 64)
    assert token == write_token(session, pepper="pepper", key_hmac=KEY)
