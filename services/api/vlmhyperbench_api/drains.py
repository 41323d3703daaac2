"""`/workers/drains`: drain and resume workers, devices and machines; who did it and why is kept."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter

from vlmhyperbench.db import drains
from vlmhyperbench.db.drains import DrainScope
from vlmhyperbench.db.engine import AsyncSession
from vlmhyperbench.db.views import DrainView
from vlmhyperbench.errors import Conflict, NotFound
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.placement import Drain, DrainRequest, ResumeRequest
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import RuntimeOf, Session
from vlmhyperbench_api.security import Principal, requires

router = APIRouter(prefix="/workers/drains", tags=["workers"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("worker:read")]
Writer = Annotated[Principal, requires("worker:write")]


@router.get("")
async def list_drains(_: Reader, session: Session, include_resumed: bool = False) -> Page[Drain]:
    """List what is drained now, or also what was drained before, newest first."""
    views = await drains.listed(session, is_open=not include_resumed)
    return Page[Drain](items=[_shown(view) for view in views], next=None)


@router.post("", status_code=201)
async def drain(body: DrainRequest, principal: Writer, runtime: RuntimeOf) -> Drain:
    """Drain a worker, a device or a machine: it finishes what runs and gets nothing new."""
    async with runtime.database.transaction() as session:
        name = await _found(session, body.scope, body.name)
        view = await drains.add(session, scope=body.scope, name=name, reason=body.reason, by=principal.name)
    await runtime.bus.push_wake()
    return _shown(view)


@router.post("/resume")
async def resume(body: ResumeRequest, principal: Writer, runtime: RuntimeOf) -> Drain:
    """Resume a worker, a device or a machine, so that it gets jobs again."""
    async with runtime.database.transaction() as session:
        name = await _found(session, body.scope, body.name)
        view = await drains.end(session, scope=body.scope, name=name, by=principal.name)
    if view is None:
        message = f"The {body.scope} {name} is not drained."
        raise Conflict(message, cure="`vlmhyperbench workers list` shows what is.", code="not_drained")
    await runtime.bus.push_wake()
    return _shown(view)


async def _found(session: AsyncSession, scope: DrainScope, given: str) -> str:
    """Return the lasting name of what a user names: for a worker also by its name or its id.

    Raises:
        NotFound: there is none.
        Conflict: several have the name.
    """
    known = await drains.names(session, scope)
    exact = [name for name, _, _ in known if name == given]
    named = [name for name, worker_id, worker in known if scope == "worker" and given in {worker, str(worker_id)}]
    matches = exact or named
    if len(matches) == 1:
        return matches[0]
    listed = ", ".join(sorted(matches or [name for name, _, _ in known])[:20])
    if matches:
        raise Conflict(f"Several workers are called {given!r}.", cure=f"Give one of {listed}.", code="ambiguous")
    cure = f"Give one of {listed}." if listed else "No worker has registered yet."
    raise NotFound(f"There is no {scope} {given!r}.", cure=cure, code=f"unknown_{scope}")


def _shown(view: DrainView) -> Drain:
    return Drain.model_validate(view, from_attributes=True)
