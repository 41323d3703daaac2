"""`/experiments`: submit, list, read, cancel, pause and resume."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter

from vlmhyperbench.db import experiments as rows
from vlmhyperbench.db import runs, tallies
from vlmhyperbench.domain.states import ExperimentState
from vlmhyperbench.domain.varying import numeric_axes
from vlmhyperbench.wire.base import Page
from vlmhyperbench.wire.listings import Axes, Axis
from vlmhyperbench.wire.runs import Experiment, ExperimentCreate, ExperimentDetail
from vlmhyperbench_api.bodies import StrictRoute
from vlmhyperbench_api.dependencies import (
    After,
    CursorText,
    PageLimit,
    RegistriesOf,
    RuntimeOf,
    Session,
    any_case,
    read_cursor,
    write_cursor,
)
from vlmhyperbench_api.ids import ExperimentId
from vlmhyperbench_api.presenting import experiment_of
from vlmhyperbench_api.reading import read_experiment
from vlmhyperbench_api.replicas import ListSession
from vlmhyperbench_api.runs import IdempotencyKey
from vlmhyperbench_api.security import Principal, requires
from vlmhyperbench_api.submission import Submission, publish_all, submit_experiment

router = APIRouter(prefix="/experiments", tags=["experiments"], route_class=StrictRoute)

Reader = Annotated[Principal, requires("run:read")]
Writer = Annotated[Principal, requires("run:write")]


@router.post("", status_code=201)
async def create_experiment(
    body: ExperimentCreate, principal: Writer, runtime: RuntimeOf, registries: RegistriesOf, key: IdempotencyKey = None
) -> ExperimentDetail:
    """Submit an experiment; its runs are created with it."""
    catalogue = await registries.catalogue(principal.project_id)
    return await submit_experiment(
        Submission(body=body, principal=principal, key=key, catalogue=catalogue, runtime=runtime)
    )


@router.get("")
async def list_experiments(
    principal: Reader,
    session: ListSession,
    state: Annotated[ExperimentState | None, any_case(*ExperimentState)] = None,
    limit: PageLimit = 50,
    cursor: CursorText = None,
) -> Page[Experiment]:
    """List experiments, newest first."""
    after = read_cursor(cursor, After)
    page = await rows.page(
        session, project_id=principal.project_id, after=after.key if after else None, limit=limit, state=state
    )
    states = await tallies.run_states(session, [experiment.id for experiment in page])
    paused = await tallies.paused(session, [experiment.id for experiment in page])
    last = page[-1] if len(page) == limit else None
    return Page[Experiment](
        items=[
            experiment_of(experiment, states.get(experiment.id, {}), is_paused=experiment.id in paused)
            for experiment in page
        ],
        next=write_cursor(After(at=last.created_at, id=last.id)) if last else None,
    )


@router.get("/{experiment_id}")
async def get_experiment(
    experiment_id: ExperimentId, principal: Reader, session: Session, runtime: RuntimeOf
) -> ExperimentDetail:
    """Return one experiment with its runs."""
    return await read_experiment(session, experiment_id, project_id=principal.project_id, settings=runtime.settings)


@router.get("/{experiment_id}/axes")
async def list_axes(experiment_id: ExperimentId, principal: Reader, session: Session) -> Axes:
    """List the numbers of the specs in which the runs of an experiment differ: the axes of its sweeps.

    Each is a column of runs, so that `/points` gives their values.
    """
    await read_experiment(session, experiment_id, project_id=principal.project_id)
    axes = numeric_axes([run.spec for run in await runs.of_experiment(session, experiment_id)])
    return Axes(axes=[Axis(column=f"spec.{path}", values=values) for path, values in axes.items()])


@router.post("/{experiment_id}/cancel")
async def cancel_experiment(experiment_id: ExperimentId, principal: Writer, runtime: RuntimeOf) -> ExperimentDetail:
    """Request the cancellation of an experiment and its open runs."""
    async with runtime.database.transaction() as session:
        await read_experiment(session, experiment_id, project_id=principal.project_id)
        await rows.request_cancel(session, experiment_id)
        experiment = await read_experiment(session, experiment_id, project_id=principal.project_id)
    return await _publish(runtime, experiment)


@router.post("/{experiment_id}/pause")
async def pause_experiment(experiment_id: ExperimentId, principal: Writer, runtime: RuntimeOf) -> ExperimentDetail:
    """Pause the open runs of an experiment: no more of their jobs are assigned, and running jobs drain."""
    return await _set_paused(experiment_id, principal, runtime, is_paused=True)


@router.post("/{experiment_id}/resume")
async def resume_experiment(experiment_id: ExperimentId, principal: Writer, runtime: RuntimeOf) -> ExperimentDetail:
    """Resume the paused runs of an experiment."""
    return await _set_paused(experiment_id, principal, runtime, is_paused=False)


async def _set_paused(
    experiment_id: UUID, principal: Principal, runtime: RuntimeOf, *, is_paused: bool
) -> ExperimentDetail:
    async with runtime.database.transaction() as session:
        await read_experiment(session, experiment_id, project_id=principal.project_id)
        await rows.set_paused(session, experiment_id, is_paused=is_paused)
        experiment = await read_experiment(session, experiment_id, project_id=principal.project_id)
    return await _publish(runtime, experiment)


async def _publish(runtime: RuntimeOf, experiment: ExperimentDetail) -> ExperimentDetail:
    """After the commit, wake the scheduler and publish that there are new events."""
    await runtime.bus.push_wake()
    await publish_all(runtime, experiment)
    return experiment
