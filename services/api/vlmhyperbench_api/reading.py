"""Read complete runs and experiments, for the routes and the live feed."""

from __future__ import annotations

from uuid import UUID

from vlmhyperbench.bus import Progress
from vlmhyperbench.db import experiments, failures, jobs, phases, runs, tallies, waits
from vlmhyperbench.db.engine import AsyncSession
from vlmhyperbench.db.tallies import Tally
from vlmhyperbench.domain.retuning import why_not_retunable
from vlmhyperbench.errors import NotFound
from vlmhyperbench.settings import Settings
from vlmhyperbench.wire.runs import ExperimentDetail, RunDetail
from vlmhyperbench_api.presenting import experiment_detail_of, run_detail_of


async def read_run(
    session: AsyncSession,
    run_id: UUID,
    *,
    project_id: str,
    progress: Progress | None = None,
    settings: Settings | None = None,
) -> RunDetail:
    """Read a run; with the settings, which say when a worker is stale, also what it waits for.

    Raises:
        NotFound: it does not exist in this project.
    """
    view = await runs.get(session, run_id, project_id=project_id)
    if view is None:
        raise NotFound(f"There is no run {run_id}.", cure="List the runs to see which there are.")
    waiting = await waits.of_runs(session, [view], settings) if settings is not None else {}
    tally = (await tallies.of_runs(session, [run_id])).get(run_id, Tally())
    return run_detail_of(
        view,
        phases=await phases.of_run(session, run_id),
        jobs=await jobs.of_run(session, run_id),
        tally=tally,
        failures=await failures.of_run(session, run_id) if tally.failed else None,
        progress=None if view.state.is_terminal else progress,
        wait=waiting.get(run_id),
    )


async def check_retune(session: AsyncSession, run_id: UUID, *, project_id: str) -> None:
    """Refuse a retune that the run's scenario or its state does not allow.

    Raises:
        NotFound: the run does not exist in this project.
        Conflict: as `why_not_retunable`.
    """
    view = await runs.get(session, run_id, project_id=project_id)
    if view is None:
        raise NotFound(f"There is no run {run_id}.", cure="List the runs to see which there are.")
    asking = [job.state for job in await jobs.of_run(session, run_id) if job.counts]
    refusal = why_not_retunable(view.pinned_spec(), view.state, asking)
    if refusal is not None:
        raise refusal


async def read_experiment(
    session: AsyncSession, experiment_id: UUID, *, project_id: str, settings: Settings | None = None
) -> ExperimentDetail:
    """Read an experiment with its runs, as `read_run` reads them.

    Raises:
        NotFound: it does not exist in this project.
    """
    view = await experiments.get(session, experiment_id, project_id=project_id)
    if view is None:
        raise NotFound(f"There is no experiment {experiment_id}.", cure="List the experiments to see which there are.")
    members = await runs.of_experiment(session, experiment_id)
    counts = await tallies.of_runs(session, [run.id for run in members])
    states = await tallies.run_states(session, [experiment_id])
    waiting = await waits.of_runs(session, members, settings) if settings is not None else {}
    return experiment_detail_of(view, states.get(experiment_id, {}), members, counts, waiting)
