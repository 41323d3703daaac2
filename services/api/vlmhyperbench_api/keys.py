"""`/keys`: list, create and revoke API keys; a secret is shown once, and every key stays on record."""

from __future__ import annotations

import logging
import secrets
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter

from vlmhyperbench.db import api_keys as rows
from vlmhyperbench.db.views import ApiKeyView
from vlmhyperbench.domain.api_keys import hmac_of, prefix_of
from vlmhyperbench.errors import Conflict, NotFound
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.keys import ApiKey, KeyCreate, KeyCreated
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import RuntimeOf, Session
from vlmhyperbench_api.errors import Forbidden
from vlmhyperbench_api.security import Principal, requires

router = APIRouter(prefix="/keys", tags=["keys"], route_class=StrictRoute)
log = logging.getLogger(__name__)

Reader = Annotated[Principal, requires("key:read")]
Writer = Annotated[Principal, requires("key:write")]


@router.get("")
async def list_keys(principal: Reader, session: Session) -> Page[ApiKey]:
    """List the newest keys of the project, in whatever state they are."""
    keys = await rows.of_project(session, principal.project_id)
    return Page[ApiKey](items=[_shown(key, principal) for key in keys])


@router.post("", status_code=201)
async def create_key(body: KeyCreate, principal: Writer, runtime: RuntimeOf, session: Session) -> KeyCreated:
    """Make a key for this project; its secret is shown only in this response.

    It may do at most what the key may do that makes it, and ends no later.
    """
    _check_scopes(body, principal)
    if await rows.is_taken(session, body.name, project_id=principal.project_id):
        cure = "Choose another name, or revoke that key first."
        raise Conflict(f"A valid key has the name {body.name!r}.", cure=cure, code="name_taken")
    secret = f"vlmhb{secrets.token_hex(4)}_{secrets.token_urlsafe(32)}"
    added = await rows.add(
        session,
        prefix=prefix_of(secret) or "",
        hmac_sha256=hmac_of(secret, runtime.settings.key_pepper.get_secret_value()),
        principal=body.name,
        project_id=principal.project_id,
        scopes=list(dict.fromkeys(body.scopes)),
        expires_at=_end(body, principal),
        created_by=principal.name,
    )
    log.info("%s has made the key %s for %s.", principal.name, added.prefix, added.principal)
    return KeyCreated(**_shown(added, principal).model_dump(), key=secret)


@router.post("/{prefix}/revoke")
async def revoke_key(prefix: str, principal: Writer, session: Session) -> ApiKey:
    """Revoke a key: it, and every browser that it has signed in, is refused from the next request on."""
    if prefix == principal.key_prefix:
        cure = "Use another key to revoke it."
        raise Conflict("This request is made with that key.", cure=cure, code="key_in_use")
    revoked = await rows.revoke(session, prefix, project_id=principal.project_id, by=principal.name)
    if revoked is None:
        raise NotFound(f"There is no key {prefix[:40]!r}.", cure="List the keys: GET /api/v1/keys.")
    log.info("%s has revoked the key %s of %s.", principal.name, prefix, revoked.principal)
    return _shown(revoked, principal)


def _check_scopes(body: KeyCreate, principal: Principal) -> None:
    beyond = [scope for scope in body.scopes if not principal.may(scope)]
    if beyond:
        raise Forbidden(
            f"A key cannot give scopes that it lacks: {', '.join(beyond)}.", cure="Leave them out, or use another key."
        )


def _end(body: KeyCreate, principal: Principal) -> datetime | None:
    """Return when a new key ends: never later than the key that makes it."""
    asked = None if body.expires_in_s is None else datetime.now(UTC) + timedelta(seconds=body.expires_in_s)
    return min((end for end in (asked, principal.expires_at) if end is not None), default=None)


def _shown(key: ApiKeyView, principal: Principal) -> ApiKey:
    is_expired = key.expires_at is not None and key.expires_at <= datetime.now(UTC)
    return ApiKey(
        prefix=key.prefix,
        name=key.principal,
        scopes=sorted(key.scopes),
        state="revoked" if key.revoked_at is not None else "expired" if is_expired else "valid",
        is_own=key.prefix == principal.key_prefix,
        created_at=key.created_at,
        created_by=key.created_by,
        expires_at=key.expires_at,
        revoked_at=key.revoked_at,
        revoked_by=key.revoked_by,
    )
