"""`/join-tokens` and `/workers/join`: tokens by which workers of other machines get the settings that they need."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter, Request

from vlmhyperbench.accounts.keeping import account_of, make, revoke
from vlmhyperbench.db import join_tokens as rows
from vlmhyperbench.db.views import JoinTokenView
from vlmhyperbench.domain.api_keys import hmac_of, prefix_of
from vlmhyperbench.errors import Conflict, Denied, NotFound
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.joining import Joined, JoinRequest, JoinToken, JoinTokenCreate, JoinTokenCreated, Proof
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import AttemptsOf, PageLimit, RuntimeOf, Session
from vlmhyperbench_api.security import PUBLIC, Principal, requires
from vlmhyperbench_api.worker_settings import authority_of, worker_settings

router = APIRouter(tags=["workers"], route_class=StrictRoute)
log = logging.getLogger(__name__)

Writer = Annotated[Principal, requires("worker:write")]
Reader = Annotated[Principal, requires("worker:read")]
_NOBODY = "0" * 64
_NEW = "Make a new one on the server: vlmhyperbench workers token create."
_ENDED = {
    "expired": "This join token has expired.",
    "revoked": "This join token was revoked.",
    "used": "This join token has been used as often as it permits.",
}


@router.post("/join-tokens", status_code=201)
async def create_join_token(
    choices: JoinTokenCreate, principal: Writer, runtime: RuntimeOf, session: Session
) -> JoinTokenCreated:
    """Make a token by which workers of other machines join; it is shown only in this response."""
    token = f"vlmhbj{secrets.token_hex(4)}_{secrets.token_urlsafe(32)}"
    added = await rows.add(
        session,
        prefix=prefix_of(token) or "",
        hmac_sha256=hmac_of(token, runtime.settings.key_pepper.get_secret_value()),
        kind=choices.kind,
        created_by=principal.name,
        expires_in=timedelta(seconds=choices.expires_in_s),
        max_uses=choices.max_uses,
    )
    return JoinTokenCreated(**_shown(added, added.created_at).model_dump(), token=token)


@router.get("/join-tokens")
async def list_join_tokens(_: Reader, session: Session, limit: PageLimit = 100) -> Page[JoinToken]:
    """List the newest join tokens, in whatever state they are."""
    now = await rows.now(session)
    return Page[JoinToken](items=[_shown(token, now) for token in await rows.page(session, limit=limit)])


@router.post("/join-tokens/{prefix}/revoke")
async def revoke_join_token(prefix: str, principal: Writer, runtime: RuntimeOf, session: Session) -> JoinToken:
    """Revoke a token: no worker joins with it any more, and the accounts of those that have joined by it end."""
    revoked = await revoke(
        runtime.database, prefix, revoked_by=principal.name, redis_url=runtime.settings.redis_url.get_secret_value()
    )
    if revoked is None:
        raise NotFound(f"There is no join token {prefix[:40]!r}.", cure="List them: vlmhyperbench workers token ls.")
    return _shown(revoked, await rows.now(session))


@router.post("/workers/join", dependencies=[PUBLIC])
async def join(asked: JoinRequest, request: Request, runtime: RuntimeOf, attempts: AttemptsOf) -> Joined:
    """Exchange a join token for the settings that a worker of this kind needs.

    Only who knows the whole token learns its state; all other tokens have the same answer.
    """
    address = request.client.host if request.client is not None else ""
    attempts.check(address)
    try:
        token = await _validated(asked, runtime)
    except Denied:
        attempts.failed(address)
        raise
    own = version("vlmhyperbench")
    if asked.version != own:
        raise Conflict(
            f"The worker has version {asked.version} of VLMHyperBench, and the server {own}.",
            cure=f"Install the server's version on the worker's machine: pip install 'vlmhyperbench=={own}'.",
            code="version_differs",
        )
    has_own = runtime.settings.worker_accounts == "own"
    pepper = runtime.settings.key_pepper.get_secret_value()
    account = account_of(asked.token, token.prefix, pepper) if has_own else None
    settings = worker_settings(runtime.settings, address, account)
    prefix = token.prefix
    content = hashlib.sha256(f"join {prefix}".encode()).hexdigest().encode()
    stored = await asyncio.to_thread(runtime.storage.put, f"joins/{prefix}", content, media_type="text/plain")
    async with runtime.database.transaction() as session:
        if not await rows.use(session, prefix):  # another worker was faster
            raise Denied(_ENDED["used"], cure=_NEW, code="token_used")
        if account is not None:
            await make(session, token, account, redis_url=runtime.settings.redis_url.get_secret_value())
        else:
            await rows.set_account(session, prefix, "shared")
    log.info("The %s worker %s of %s has joined by the token %s.", asked.kind, asked.name, asked.host, prefix)
    return Joined(
        version=own,
        at=datetime.now(UTC),
        settings=settings,
        ca_pem=authority_of(runtime.settings.tls_ca_file),
        s3_ca_pem=authority_of(runtime.settings.storage_s3.ca_file),
        proof=Proof(key=stored.key, sha256=stored.sha256),
    )


async def _validated(asked: JoinRequest, runtime: RuntimeOf) -> JoinTokenView:
    """Return a valid token, without its secret.

    Raises:
        Denied: the token is wrong, or no longer valid, or for another kind of workers.
    """
    prefix = prefix_of(asked.token)
    known = None
    if prefix is not None:
        async with runtime.database.transaction() as session:
            known = await rows.get(session, prefix)
    stored = known[0].hmac_sha256 if known is not None else _NOBODY
    is_right = hmac.compare_digest(hmac_of(asked.token, runtime.settings.key_pepper.get_secret_value()), stored)
    if known is None or not is_right or prefix is None:
        message = "The join token is not valid."
        raise Denied(message, cure="Copy the whole token, or make a new one on the server.", code="token_wrong")
    token, now = known
    if (state := token.state(now)) in _ENDED:
        raise Denied(_ENDED[state], cure=_NEW, code=f"token_{state}")
    if token.kind not in (None, asked.kind):
        message = f"This join token is for workers of the kind {token.kind}, and not for {asked.kind}."
        raise Denied(message, cure=_NEW, code="token_kind")
    return token


def _shown(token: JoinTokenView, now: datetime) -> JoinToken:
    return JoinToken(
        prefix=token.prefix,
        kind=token.kind,
        state=token.state(now),
        created_by=token.created_by,
        created_at=token.created_at,
        expires_at=token.expires_at,
        max_uses=token.max_uses,
        uses=token.uses,
        revoked_at=token.revoked_at,
        revoked_by=token.revoked_by,
        account=token.account,
    )
