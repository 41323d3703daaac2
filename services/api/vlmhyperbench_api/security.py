"""Authentication and authorisation: every route has a policy, and all except health need a key or a browser's session.

`requires("run:read")` is the policy of a route; `PUBLIC` says that none is needed. `check_policies` refuses to start
an application in which a route declares neither.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Depends
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, APIWebSocketRoute
from starlette.requests import HTTPConnection

from vlmhyperbench.db import api_keys
from vlmhyperbench.db.views import ApiKeyView
from vlmhyperbench.domain.api_keys import ALL_SCOPES, SCOPES, hmac_of, prefix_of
from vlmhyperbench_api.cookies import check_change, has_cookie, session_of
from vlmhyperbench_api.dependencies import runtime_of
from vlmhyperbench_api.errors import Forbidden, Unauthorised

_NOBODY = "0" * 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The authenticated sender of a request, with its project and scopes."""

    name: str
    project_id: str
    scopes: frozenset[str]
    key_prefix: str = ""
    """Public part of the key, also of a session that it opened."""
    expires_at: datetime | None = None
    """When that key ends."""
    session_ends_at: datetime | None = None
    """When the browser's session ends, if the request has one."""
    session_nonce: str | None = None
    """By which that session can be ended earlier."""

    def may(self, scope: str) -> bool:
        """Return whether the key has a scope."""
        return scope in self.scopes or ALL_SCOPES in self.scopes


class Policy:
    """A route's authorisation policy; the framework calls it before the route's function."""

    def __init__(self, scope: str) -> None:
        if scope not in SCOPES:
            raise ValueError(f"There is no scope {scope!r}.")
        self.scope = scope

    async def __call__(self, connection: HTTPConnection) -> Principal:
        """Return the sender of the request.

        Raises:
            Unauthorised: the key is missing, unknown, revoked or expired.
            Forbidden: the key lacks the scope.
        """
        principal = await self.principal(connection)
        if not principal.may(self.scope):
            raise Forbidden(f"The key lacks the scope {self.scope}.", cure="Use a key that has it.")
        return principal

    async def principal(self, connection: HTTPConnection) -> Principal:
        """Return the owner of the request's key, or of its session if a browser sends one instead.

        Raises:
            Unauthorised: the key is missing or not valid, or the session has ended.
            Forbidden: a request with a session changes something, and is not from the session's page.
        """
        if key_of(connection) or not has_cookie(connection):
            return await authenticate(connection)
        session = await session_of(connection)
        check_change(connection, session)
        principal = principal_of(session.key, session.scopes)
        return replace(principal, session_ends_at=session.expires_at, session_nonce=session.nonce)


class _Public:
    """The policy of a route without authentication."""

    async def __call__(self) -> None:
        """Accept every request."""


PUBLIC = Depends(_Public())


def requires(scope: str) -> Any:
    """Declare that a route needs a key with this scope; the route receives its `Principal`."""
    return Depends(Policy(scope))


async def authenticate(connection: HTTPConnection) -> Principal:
    """Return the owner of a key; all failures have the same message and take the same time.

    Raises:
        Unauthorised: the key is missing, unknown, revoked or expired.
    """
    runtime = runtime_of(connection)
    key = key_of(connection)
    prefix = prefix_of(key)
    stored_key = None
    if prefix is not None:
        async with runtime.database.transaction() as session:
            stored_key = await api_keys.valid(session, prefix)
    stored = stored_key.hmac_sha256 if stored_key is not None else _NOBODY
    is_right = hmac.compare_digest(hmac_of(key, runtime.settings.key_pepper.get_secret_value()), stored)
    if stored_key is None or not is_right:
        raise Unauthorised("The API key is missing or not valid.", cure="Send a valid key in the header X-API-Key.")
    return principal_of(stored_key, frozenset(stored_key.scopes))


def principal_of(key: ApiKeyView, scopes: frozenset[str]) -> Principal:
    """Return the owner of a key, with what this request may do."""
    return Principal(
        name=key.principal,
        project_id=key.project_id,
        scopes=scopes,
        key_prefix=key.prefix,
        expires_at=key.expires_at,
    )


def key_of(connection: HTTPConnection) -> str:
    """Return the key of a request; programs that cannot send a header of another name send it as a bearer token."""
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    return connection.headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else "")


def check_policies(routers: Iterable[APIRouter]) -> None:
    """Refuse routes without a policy.

    Raises:
        RuntimeError: a route declares none, or is of a kind that cannot.
    """
    for router in routers:
        for route in router.routes:
            if not isinstance(route, APIRoute | APIWebSocketRoute) or not any(_policies(route.dependant)):
                raise RuntimeError(f"The route {getattr(route, 'path', route)} declares no policy.")


def _policies(dependant: Dependant) -> Iterator[bool]:
    for dependency in dependant.dependencies:
        yield isinstance(dependency.call, Policy | _Public)
        yield from _policies(dependency)
