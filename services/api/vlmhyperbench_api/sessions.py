"""Browser sessions: an API key creates a ticket, a ticket opens one session, a session may read what its key may read.

A ticket is part of a URL, so it is valid once and for ten minutes; the session is an HttpOnly cookie.
"""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter
from starlette.requests import HTTPConnection

from vlmhyperbench.db import api_keys
from vlmhyperbench.db.views import ApiKeyView
from vlmhyperbench.domain.api_keys import prefix_of
from vlmhyperbench.domain.tickets import SESSION_S, TICKET_S, Purpose, Ticket, is_signed, read_ticket, write_ticket
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.wire.tickets import BrowserTicket
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import RuntimeOf, runtime_of
from vlmhyperbench_api.errors import Unauthorised
from vlmhyperbench_api.security import Policy, Principal, key_of, requires

router = APIRouter(prefix="/tickets", tags=["browser"], route_class=StrictRoute)

SIGN_IN = "/sign-in"
_SCOPES = frozenset({"run:read", "artifact:read"})
"""Maximum scopes of a session."""
_CURE = "Run `vlmhyperbench status` on the stack's machine, and open the address that it prints."


class PagePolicy(Policy):
    """The policy of a web page: a session whose key has the required scope."""

    async def principal(self, connection: HTTPConnection) -> Principal:
        """Return the owner of the session; all failures have the same message.

        Raises:
            Unauthorised: there is no session, or it has expired, or its key is no longer valid.
        """
        session = read_ticket(connection.cookies.get(cookie_name(connection), ""))
        key = await _key_of(connection, session, "session")
        if key is None:
            raise Unauthorised("This browser has no session.", cure=_CURE)
        granted = frozenset(key.scopes)
        scopes = frozenset(scope for scope in _SCOPES if scope in granted or "*" in granted)
        return Principal(name=key.principal, project_id=key.project_id, scopes=scopes)


@router.post("", status_code=201)
async def create_ticket(
    connection: HTTPConnection, runtime: RuntimeOf, principal: Annotated[Principal, requires("run:read")]
) -> BrowserTicket:
    """Create a one-time URL, valid for ten minutes, that opens the stack's web page in one browser."""
    prefix = prefix_of(key_of(connection)) or ""
    async with runtime.database.transaction() as session:
        key = await api_keys.valid(session, prefix)
    if key is None or not runtime.settings.key_pepper.get_secret_value():
        raise Unavailable(f"No ticket can be signed for {principal.name}.", cure="Set VLMHB_KEY_PEPPER.")
    expires_at = int(time.time()) + TICKET_S
    ticket = _write("ticket", key, expires_at, runtime.settings.key_pepper.get_secret_value())
    return BrowserTicket(path=f"{SIGN_IN}?ticket={ticket}", expires_at=datetime.fromtimestamp(expires_at, UTC))


async def open_session(connection: HTTPConnection, text: str) -> str:
    """Redeem a ticket and return the session's cookie.

    Raises:
        Unauthorised: the ticket is not valid, has expired, or was already used.
        Unavailable: Valkey does not respond, so it is unknown whether the ticket was used.
    """
    runtime = runtime_of(connection)
    ticket = read_ticket(text)
    key = await _key_of(connection, ticket, "ticket")
    if ticket is None or key is None:
        raise Unauthorised("This link has ended.", cure=_CURE)
    is_first = await runtime.bus.take_once(f"ticket:{ticket.nonce}", ttl_s=TICKET_S)
    if is_first is None:
        raise Unavailable("Valkey does not answer, so that no link can be taken.", cure="Try again in a moment.")
    if not is_first:
        raise Unauthorised("This link was used already.", cure=_CURE)
    return _write("session", key, int(time.time()) + SESSION_S, runtime.settings.key_pepper.get_secret_value())


def cookie_name(connection: HTTPConnection) -> str:
    """Return a cookie name that holds the API's port, since browsers share a host's cookies across ports."""
    return f"vlmhyperbench-{runtime_of(connection).settings.api_port}"


def _write(purpose: Purpose, key: ApiKeyView, expires_at: int, pepper: str) -> str:
    return write_ticket(
        purpose,
        prefix=key.prefix,
        expires_at=expires_at,
        nonce=secrets.token_urlsafe(16),
        pepper=pepper,
        key_hmac=key.hmac_sha256,
    )


async def _key_of(connection: HTTPConnection, ticket: Ticket | None, purpose: Purpose) -> ApiKeyView | None:
    """Return the key of a ticket or session, or None if it is not valid."""
    if ticket is None:
        return None
    runtime = runtime_of(connection)
    async with runtime.database.transaction() as session:
        key = await api_keys.valid(session, ticket.prefix)
    pepper = runtime.settings.key_pepper.get_secret_value()
    if key is None or not is_signed(ticket, purpose, now=time.time(), pepper=pepper, key_hmac=key.hmac_sha256):
        return None
    return key
