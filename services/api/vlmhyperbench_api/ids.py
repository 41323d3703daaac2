"""Ids in routes: full, or abbreviated to first digits that are unambiguous."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query
from starlette.requests import HTTPConnection

from vlmhyperbench.db import ids
from vlmhyperbench.db.ids import Named
from vlmhyperbench.domain.short_ids import LISTED_BY, NamedKind, ids_from
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.wire.ids import Identified
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import runtime_of
from vlmhyperbench_api.security import Policy, Principal, requires

router = APIRouter(prefix="/ids", tags=["ids"], route_class=StrictRoute)

MAX_CANDIDATES = 10
_READER = Policy("run:read")
"""Who looks an id up: the owner of a key, or of a browser's session."""


@router.get("/{id}")
async def identify(
    given: Annotated[str, Path(alias="id")],
    connection: HTTPConnection,
    principal: Annotated[Principal, requires("run:read")],
) -> Identified:
    """Look up the run, experiment or artifact that an id stands for."""
    match = await _find(connection, principal, given, ids.KINDS)
    return Identified(kind=match.kind, id=match.id, name=match.name)


async def resolve(connection: HTTPConnection, given: str, *kinds: NamedKind) -> UUID:
    """Return the full id that its first digits stand for; a full id is not looked up.

    Raises:
        InvalidInput: the text is not an id, or the digits are ambiguous.
        NotFound: no id begins with these digits.
    """
    first, last = ids_from(given)
    if first == last:
        return first
    return (await _find(connection, await _READER.principal(connection), given, kinds)).id


async def _find(connection: HTTPConnection, principal: Principal, given: str, kinds: tuple[NamedKind, ...]) -> Named:
    first, last = ids_from(given)
    async with runtime_of(connection).database.transaction() as session:
        matches = await ids.between(
            session, first, last, project_id=principal.project_id, kinds=kinds, limit=MAX_CANDIDATES + 1
        )
    if not matches:
        raise NotFound(f"There is no {' or '.join(kinds)} {given}.", cure=LISTED_BY)
    if len(matches) > 1:
        candidates = ", ".join(f"{named.kind} {named.id} ({named.name})" for named in matches[:MAX_CANDIDATES])
        more = ", and more" if len(matches) > MAX_CANDIDATES else ""
        message = f"{given!r} is the beginning of several ids: {candidates}{more}."
        raise InvalidInput(message, cure="Give more of its digits.", code="ambiguous_id")
    return matches[0]


async def _run(run_id: str, connection: HTTPConnection) -> UUID:
    return await resolve(connection, run_id, "run")


async def _experiment(experiment_id: str, connection: HTTPConnection) -> UUID:
    return await resolve(connection, experiment_id, "experiment")


async def _scope(scope_id: str, connection: HTTPConnection) -> UUID:
    return await resolve(connection, scope_id, "run", "experiment")


async def _stream(
    stream: Annotated[str, Query(max_length=100, description="The run or experiment to follow.")],
    connection: HTTPConnection,
) -> UUID:
    return await resolve(connection, stream, "run", "experiment")


async def _artifact(artifact_id: str, connection: HTTPConnection) -> UUID:
    return await resolve(connection, artifact_id, "artifact")


async def _run_or_none(connection: HTTPConnection, run_id: str | None = None) -> UUID | None:
    return None if run_id is None else await resolve(connection, run_id, "run")


async def _against_or_none(
    connection: HTTPConnection,
    against: Annotated[str | None, Query(max_length=100, description="The run whose answers are the baseline.")] = None,
) -> UUID | None:
    return None if against is None else await resolve(connection, against, "run")


async def _experiment_or_none(connection: HTTPConnection, experiment_id: str | None = None) -> UUID | None:
    return None if experiment_id is None else await resolve(connection, experiment_id, "experiment")


RunId = Annotated[UUID, Depends(_run)]
ExperimentId = Annotated[UUID, Depends(_experiment)]
ScopeId = Annotated[UUID, Depends(_scope)]
StreamId = Annotated[UUID, Depends(_stream)]
ArtifactId = Annotated[UUID, Depends(_artifact)]
MaybeRunId = Annotated[UUID | None, Depends(_run_or_none)]
MaybeExperimentId = Annotated[UUID | None, Depends(_experiment_or_none)]
MaybeAgainstId = Annotated[UUID | None, Depends(_against_or_none)]
