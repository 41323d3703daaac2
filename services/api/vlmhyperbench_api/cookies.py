"""The cookie of a browser's session: who it is, and what it may do with and without the token of its page.

Browsers send a host's cookies to every port of that host, so another server of the machine can learn the cookie. The
token is kept by the page in the storage of its own origin, which includes the port: a cookie without it can only read.
"""

from __future__ import annotations

import hmac
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from vlmhyperbench.db import api_keys, ended_sessions
from vlmhyperbench.db.views import ApiKeyView
from vlmhyperbench.domain.api_keys import ALL_SCOPES, SCOPES
from vlmhyperbench.domain.tickets import Purpose, Ticket, is_signed, read_ticket, write_token
from vlmhyperbench_api.dependencies import runtime_of
from vlmhyperbench_api.errors import Forbidden, Unauthorised

TOKEN_HEADER = "X-CSRF-Token"  # noqa: S105 - the name of a header
CURE = "Run `vlmhyperbench open` or `vlmhyperbench status` on the stack's machine: both give a link that signs in."
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSession:
    """A valid session."""

    key: ApiKeyView
    nonce: str
    expires_at: datetime
    scopes: frozenset[str]
    can_write: bool
    """Whether the request had the token of the session's page."""


def cookie_name(connection: HTTPConnection) -> str:
    """Return a cookie name that holds the API's port, since browsers share a host's cookies across ports."""
    return f"vlmhyperbench-{runtime_of(connection).settings.api_port}"


def has_cookie(connection: HTTPConnection) -> bool:
    """Return whether a request has a session's cookie, valid or not."""
    return cookie_name(connection) in connection.cookies


async def session_of(connection: HTTPConnection) -> BrowserSession:
    """Return the session of a request; all failures have the same message.

    Raises:
        Unauthorised: there is no session, or it has ended or expired, or its key is no longer valid.
    """
    session = read_ticket(connection.cookies.get(cookie_name(connection), ""))
    key = await key_of_ticket(connection, session, "session")
    if session is None or key is None:
        raise Unauthorised("This browser has no session.", cure=CURE)
    pepper = runtime_of(connection).settings.key_pepper.get_secret_value()
    expected = write_token(session, pepper=pepper, key_hmac=key.hmac_sha256)
    can_write = hmac.compare_digest(expected, connection.headers.get(TOKEN_HEADER, ""))
    granted = frozenset(SCOPES) if ALL_SCOPES in key.scopes else frozenset(key.scopes)
    return BrowserSession(
        key=key,
        nonce=session.nonce,
        expires_at=datetime.fromtimestamp(session.expires_at, UTC),
        scopes=granted if can_write else frozenset(scope for scope in granted if scope.endswith(":read")),
        can_write=can_write,
    )


def check_change(connection: HTTPConnection, session: BrowserSession) -> None:
    """Refuse a request that changes something, unless it comes from the session's own page.

    Raises:
        Forbidden: it comes from a page of another origin, or has no valid token.
    """
    if connection.scope["type"] == "websocket" or connection.scope["method"] in _READING:
        return
    if not is_own_origin(connection) or not session.can_write:
        raise Forbidden("This browser may only read: the request has no valid token of the dashboard.", cure=CURE)


def is_own_origin(connection: HTTPConnection) -> bool:
    """Return whether a request comes from no page, or from a page of the address at which it arrived."""
    origin = connection.headers.get("origin")
    return origin is None or _host_of(origin) == connection.headers.get("host")


async def key_of_ticket(connection: HTTPConnection, ticket: Ticket | None, purpose: Purpose) -> ApiKeyView | None:
    """Return the key of a ticket or session, or None if it is not valid."""
    if ticket is None:
        return None
    runtime = runtime_of(connection)
    async with runtime.database.transaction() as session:
        key = await api_keys.valid(session, ticket.prefix)
        has_ended = purpose == "session" and await ended_sessions.ended_among(session, [ticket.nonce])
    pepper = runtime.settings.key_pepper.get_secret_value()
    if (
        key is None
        or has_ended
        or not is_signed(ticket, purpose, now=time.time(), pepper=pepper, key_hmac=key.hmac_sha256)
    ):
        return None
    return key


def _host_of(origin: str) -> str | None:
    """Return host and port of an origin, or None if it is not a valid URL."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None
