"""Signed texts for browsers: a ticket, which opens one session, the session itself, and the token with which it writes.

Ticket and session contain the prefix of an API key and an expiry, and are signed with a secret of the API and with the
stored HMAC of the key, as the token is. So all become invalid when the key is revoked, is replaced or expires.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Literal

Purpose = Literal["ticket", "session", "write"]

TICKET_S = 600
SESSION_S = 12 * 3600
_TEXT = re.compile(r"([A-Za-z0-9]{4,32})\.([0-9]{1,12})\.([A-Za-z0-9_-]{16,64})\.([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """The fields of a signed text; only `is_signed` verifies its signature."""

    prefix: str
    """Prefix of the API key."""
    expires_at: int
    """Seconds since 1970."""
    nonce: str
    """Random text that makes each ticket unique."""
    signature: str


def write_ticket(purpose: Purpose, *, prefix: str, expires_at: int, nonce: str, pepper: str, key_hmac: str) -> str:
    """Return the signed text.

    Args:
        purpose: part of the signature, so that a ticket is not valid as a session.
        prefix: prefix of the API key.
        expires_at: seconds since 1970.
        nonce: random text of 16 to 64 URL-safe characters.
        pepper: the API's secret.
        key_hmac: stored HMAC of the key.
    """
    content = f"{prefix}.{expires_at}.{nonce}"
    return f"{content}.{_sign(purpose, content, pepper, key_hmac)}"


def read_ticket(text: str) -> Ticket | None:
    """Parse a signed text; None if it is not one. Its fields are untrusted until `is_signed` has verified them."""
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    return Ticket(prefix=match[1], expires_at=int(match[2]), nonce=match[3], signature=match[4])


def is_signed(ticket: Ticket, purpose: Purpose, *, now: float, pepper: str, key_hmac: str) -> bool:
    """Return whether a text has a valid signature for this purpose and key and has not expired; needs a pepper."""
    content = f"{ticket.prefix}.{ticket.expires_at}.{ticket.nonce}"
    is_right = hmac.compare_digest(_sign(purpose, content, pepper, key_hmac), ticket.signature)
    return bool(pepper) and is_right and now < ticket.expires_at


def write_token(session: Ticket, *, pepper: str, key_hmac: str) -> str:
    """Return the token that a request which changes something sends beside the cookie of its session."""
    return _sign("write", f"{session.prefix}.{session.expires_at}.{session.nonce}", pepper, key_hmac)


def _sign(purpose: Purpose, content: str, pepper: str, key_hmac: str) -> str:
    message = f"vlmhyperbench {purpose} v1\n{content}\n{key_hmac}"
    digest = hmac.new(pepper.encode(), message.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
