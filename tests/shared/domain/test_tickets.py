"""Signed texts for browsers: good for one purpose, one key and one time, and for nobody without the pepper."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vlmhyperbench.domain.tickets import Purpose, Ticket, is_signed, read_ticket, write_ticket

KEY = "a" * 64


def _ticket(purpose: Purpose = "ticket", **changes: object) -> Ticket:
    said = {"prefix": "test", "expires_at": 1000, "nonce": "n" * 22, "pepper": "pepper", "key_hmac": KEY}
    found = read_ticket(write_ticket(purpose, **(said | changes)))  # type: ignore[arg-type]
    assert found is not None
    return found


def test_what_was_signed_here_is_good_until_it_ends() -> None:
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
def test_what_differs_in_anything_is_not_signed(ticket: Ticket) -> None:
    assert not is_signed(ticket, "ticket", now=0.0, pepper="pepper", key_hmac=KEY)


def test_nothing_is_signed_without_a_pepper() -> None:
    assert not is_signed(_ticket(pepper=""), "ticket", now=0.0, pepper="", key_hmac=KEY)


@pytest.mark.parametrize("text", ["", "a.b.c.d", "test.1." + "n" * 22, "test.1." + "n" * 22 + "." + "é" * 43])
def test_what_is_no_signed_text_is_none(text: str) -> None:
    assert read_ticket(text) is None
