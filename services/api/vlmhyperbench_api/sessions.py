"""Browser sessions: an API key creates a ticket, a ticket opens one session, a session may do what its key may do.

A ticket is part of a URL, so it is valid once and for ten minutes; the session is an HttpOnly cookie. What changes
something needs the token of the session's page too.
"""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Response
from starlette.requests import HTTPConnection

from vlmhyperbench.db import api_keys, ended_sessions
from vlmhyperbench.db.views import ApiKeyView
from vlmhyperbench.domain.api_keys import prefix_of
from vlmhyperbench.domain.tickets import SESSION_S, TICKET_S, Purpose, read_ticket, write_ticket, write_token
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.wire.tickets import BrowserSession, BrowserTicket
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.cookies import CURE, cookie_name, has_cookie, key_of_ticket, session_of
from vlmhyperbench_api.dependencies import RuntimeOf, runtime_of
from vlmhyperbench_api.errors import Forbidden, Unauthorised
from vlmhyperbench_api.security import Policy, Principal, key_of, principal_of, requires

router = APIRouter(tags=["browser"], route_class=StrictRoute)

SIGN_IN = "/sign-in"


class PagePolicy(Policy):
    """The policy of a stored page or file that a browser shows by itself: a session, never a key."""

    async def principal(self, connection: HTTPConnection) -> Principal:
        """Return the owner of the session.

        Raises:
            Unauthorised: there is no session, or it has expired, or its key is no longer valid.
        """
        session = await session_of(connection)
        return principal_of(session.key, session.scopes)


@router.post("/tickets", status_code=201)
async def create_ticket(
    connection: HTTPConnection, runtime: RuntimeOf, principal: Annotated[Principal, requires("run:read")]
) -> BrowserTicket:
    """Create a one-time URL, valid for ten minutes, that opens the dashboard in one browser."""
    if not key_of(connection):
        raise Forbidden("A browser's session makes no links.", cure=CURE)
    prefix = prefix_of(key_of(connection)) or ""
    async with runtime.database.transaction() as session:
        key = await api_keys.valid(session, prefix)
    if key is None or not runtime.settings.key_pepper.get_secret_value():
        raise Unavailable(f"No ticket can be signed for {principal.name}.", cure="Set VLMHB_KEY_PEPPER.")
    expires_at = int(time.time()) + TICKET_S
    ticket = _write("ticket", key, expires_at, runtime.settings.key_pepper.get_secret_value())
    return BrowserTicket(path=f"{SIGN_IN}?ticket={ticket}", expires_at=datetime.fromtimestamp(expires_at, UTC))


@router.get("/session")
async def get_session(
    connection: HTTPConnection, principal: Annotated[Principal, requires("run:read")]
) -> BrowserSession:
    """Describe who asks, and what a request with this key, or this cookie and token, may do."""
    session = await session_of(connection) if has_cookie(connection) and not key_of(connection) else None
    return BrowserSession(
        principal=principal.name,
        project_id=principal.project_id,
        scopes=sorted(principal.scopes),
        can_write=session is None or session.can_write,
        expires_at=session.expires_at if session is not None else None,
    )


@router.delete("/session", status_code=204)
async def end_session(
    connection: HTTPConnection, response: Response, principal: Annotated[Principal, requires("run:read")]
) -> None:
    """Sign this browser out: its session ends at once for everybody who has its cookie, and so do its live feeds."""
    if principal.session_nonce is None or principal.session_ends_at is None:
        raise Forbidden("A key has no session to end.", cure="Revoke the key, which ends all sessions that it opened.")
    async with runtime_of(connection).database.transaction() as session:
        await ended_sessions.end(session, principal.session_nonce, expires_at=principal.session_ends_at)
    response.delete_cookie(cookie_name(connection), httponly=True, samesite="lax")


async def open_session(connection: HTTPConnection, text: str) -> tuple[str, str]:
    """Redeem a ticket and return the session's cookie and the token of its page.

    Raises:
        Unauthorised: the ticket is not valid, has expired, or was already used.
        Unavailable: Valkey does not respond, so it is unknown whether the ticket was used.
    """
    runtime = runtime_of(connection)
    ticket = read_ticket(text)
    key = await key_of_ticket(connection, ticket, "ticket")
    if ticket is None or key is None:
        raise Unauthorised("This link has ended.", cure=CURE)
    is_first = await runtime.bus.take_once(f"ticket:{ticket.nonce}", ttl_s=TICKET_S)
    if is_first is None:
        raise Unavailable("Valkey does not answer, so that no link can be taken.", cure="Try again in a moment.")
    if not is_first:
        raise Unauthorised("This link was used already.", cure=CURE)
    pepper = runtime.settings.key_pepper.get_secret_value()
    cookie = _write("session", key, int(time.time()) + SESSION_S, pepper)
    session = read_ticket(cookie)
    assert session is not None  # noqa: S101 - it was written a line above
    return cookie, write_token(session, pepper=pepper, key_hmac=key.hmac_sha256)


def _write(purpose: Purpose, key: ApiKeyView, expires_at: int, pepper: str) -> str:
    return write_ticket(
        purpose,
        prefix=key.prefix,
        expires_at=expires_at,
        nonce=secrets.token_urlsafe(16),
        pepper=pepper,
        key_hmac=key.hmac_sha256,
    )
