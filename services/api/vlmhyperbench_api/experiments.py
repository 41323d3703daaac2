"""`/experiments`: submit, list, read, cancel."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter

from vlmhyperbench.db import experiments as rows
from vlmhyperbench.db import tallies
from vlmhyperbench.domain.states import ExperimentState
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.runs import Experiment, ExperimentCreate, ExperimentDetail
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import (
    After,
    CursorText,
    PageLimit,
    RegistriesOf,
    RuntimeOf,
    Session,
    read_cursor,
    write_cursor,
)
from vlmhyperbench_api.presenting import experiment_of
from vlmhyperbench_api.reading import read_experiment
from vlmhyperbench_api.runs import IdempotencyKey
from vlmhyperbench_api.security import Principal, requires
from vlmhyperbench_api.submission import publish_all, submit_experiment

router = APIRouter(prefix="/experiments", tags=["experiments"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("run:read")]
Writer = Annotated[Principal, requires("run:write")]


@router.post("", status_code=201)
async def create_experiment(
    body: ExperimentCreate, principal: Writer, runtime: RuntimeOf, registries: RegistriesOf, key: IdempotencyKey = None
) -> ExperimentDetail:
    """Submit an experiment: its runs are created with it."""
    return await submit_experiment(runtime, await registries.catalogue(), body, principal, key)


@router.get("")
async def list_experiments(
    principal: Reader,
    session: Session,
    state: ExperimentState | None = None,
    limit: PageLimit = 50,
    cursor: CursorText = None,
) -> Page[Experiment]:
    """List experiments, the newest first."""
    after = read_cursor(cursor, After)
    found = await rows.page(
        session, project_id=principal.project_id, after=after.key if after else None, limit=limit, state=state
    )
    states = await tallies.run_states(session, [one.id for one in found])
    last = found[-1] if len(found) == limit else None
    return Page[Experiment](
        items=[experiment_of(one, states.get(one.id, {})) for one in found],
        next=write_cursor(After(at=last.created_at, id=last.id)) if last else None,
    )


@router.get("/{experiment_id}")
async def get_experiment(experiment_id: UUID, principal: Reader, session: Session) -> ExperimentDetail:
    """Read one experiment, with its runs."""
    return await read_experiment(session, experiment_id, project_id=principal.project_id)


@router.post("/{experiment_id}/cancel")
async def cancel_experiment(experiment_id: UUID, principal: Writer, runtime: RuntimeOf) -> ExperimentDetail:
    """Ask for the end of an experiment and of its open runs."""
    async with runtime.database.transaction() as session:
        await read_experiment(session, experiment_id, project_id=principal.project_id)
        await rows.request_cancel(session, experiment_id)
        found = await read_experiment(session, experiment_id, project_id=principal.project_id)
    await runtime.bus.push_wake()
    await publish_all(runtime, found)
    return found
