"""Signed texts that let a browser in: a ticket, which opens one session, and the session itself.

Either names the API key that it stands for and when it ends, and is signed with a secret that only the API knows and
with what is stored of that key: where the key is revoked, replaced or expires, both end with it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Literal

Purpose = Literal["ticket", "session"]

TICKET_S = 600
SESSION_S = 12 * 3600
_TEXT = re.compile(r"([A-Za-z0-9]{4,32})\.([0-9]{1,12})\.([A-Za-z0-9_-]{16,64})\.([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """What a signed text says; whether it is signed rightly is asked of `is_signed`."""

    prefix: str
    """Prefix of the API key that it stands for."""
    expires_at: int
    """Seconds since 1970."""
    nonce: str
    """Keeps two texts apart."""
    signature: str


def write_ticket(purpose: Purpose, *, prefix: str, expires_at: int, nonce: str, pepper: str, key_hmac: str) -> str:
    """Return the signed text.

    Args:
        purpose: a text of one purpose is no text of another.
        prefix: of the API key.
        expires_at: seconds since 1970.
        nonce: random text of 16 to 64 URL-safe characters.
        pepper: the API's secret.
        key_hmac: what is stored of the key.
    """
    said = f"{prefix}.{expires_at}.{nonce}"
    return f"{said}.{_sign(purpose, said, pepper, key_hmac)}"


def read_ticket(text: str) -> Ticket | None:
    """Take a text apart; None where it is none. Nothing of it is to be believed before `is_signed`."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    return Ticket(prefix=found[1], expires_at=int(found[2]), nonce=found[3], signature=found[4])


def is_signed(ticket: Ticket, purpose: Purpose, *, now: float, pepper: str, key_hmac: str) -> bool:
    """Say whether a text was signed here for this purpose and key, and has not ended. Nothing is, without a pepper."""
    said = f"{ticket.prefix}.{ticket.expires_at}.{ticket.nonce}"
    is_right = hmac.compare_digest(_sign(purpose, said, pepper, key_hmac), ticket.signature)
    return bool(pepper) and is_right and now < ticket.expires_at


def _sign(purpose: Purpose, said: str, pepper: str, key_hmac: str) -> str:
    message = f"vlmhyperbench {purpose} v1\n{said}\n{key_hmac}"
    digest = hmac.new(pepper.encode(), message.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
