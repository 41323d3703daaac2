"""Write resolved runs and experiments with their jobs and first events, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid4

from pydantic import JsonValue

from vlmhyperbench.db import experiments, jobs, runs
from vlmhyperbench.db.claim_phases import open_of_run
from vlmhyperbench.db.engine import AsyncSession
from vlmhyperbench.db.rescoring import reuse_answers
from vlmhyperbench.db.views import RunView
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.planning import PlannedJob, plan_experiment, plan_rescoring
from vlmhyperbench.wire.runs import ExperimentCreate, RunRescore
from vlmhyperbench_api.baselines import check_baseline
from vlmhyperbench_api.submission.request import Body, Submission
from vlmhyperbench_api.submission.resolving import PinnedRun


async def add_run(
    session: AsyncSession,
    submission: Submission[Body],
    planned: Sequence[PlannedJob],
    pinned: PinnedRun,
    *,
    run_id: UUID,
    experiment_id: UUID | None = None,
    position: int = 0,
) -> RunView:
    """Add a run with its first jobs and event; `position` is its index among the runs of its experiment."""
    run = await runs.add(
        session,
        project_id=submission.project_id,
        created_by=submission.principal.name,
        name=pinned.name,
        spec=pinned.spec,
        origins=pinned.origins,
        run_id=run_id,
        experiment_id=experiment_id,
        parent_run_id=submission.parent_id,
        position=position,
        priority=submission.body.priority,
    )
    await jobs.add(
        session,
        planned,
        project_id=submission.project_id,
        run_id=run_id,
        experiment_id=experiment_id,
        priority=submission.body.priority,
        target_digest=pinned.spec.target_digest,
    )
    return run


async def add_rescoring(
    session: AsyncSession,
    submission: Submission[RunRescore],
    parent: RunView,
    pinned: PinnedRun,
    *,
    run_id: UUID,
) -> None:
    """Add a run that re-scores the answers of its parent.

    Raises:
        Conflict: the parent has not ended, or has no answers.
    """
    run = await add_run(session, submission, [], pinned, run_id=run_id)
    reused = await reuse_answers(session, run, parent)
    planned = plan_rescoring(pinned.spec, total=parent.total or 0, reused=reused)
    for phase in planned.phases:
        await open_of_run(session, run_id, phase)
    await jobs.add(
        session,
        planned.jobs,
        project_id=submission.project_id,
        run_id=run_id,
        priority=submission.body.priority,
    )


async def add_experiment(
    session: AsyncSession,
    submission: Submission[ExperimentCreate],
    pinned_runs: Sequence[PinnedRun],
    *,
    experiment_id: UUID,
    name: str,
) -> None:
    """Add an experiment with its resolved runs.

    Raises:
        InvalidInput: a run's baseline cannot serve as one.
    """
    project_id, priority = submission.project_id, submission.body.priority
    for pinned in pinned_runs:
        await check_baseline(session, pinned.spec, project_id=project_id)
    plan = plan_experiment([pinned.spec for pinned in pinned_runs])
    stored: dict[str, JsonValue] = {
        "runs": [{"name": pinned.name, "spec": pinned.spec.model_dump(mode="json")} for pinned in pinned_runs]
    }
    await experiments.add(
        session,
        project_id=project_id,
        created_by=submission.principal.name,
        name=name,
        spec=stored,
        spec_digest=digest_of(stored),
        experiment_id=experiment_id,
    )
    await jobs.add(session, plan.jobs, project_id=project_id, experiment_id=experiment_id, priority=priority)
    for position, (pinned, planned) in enumerate(zip(pinned_runs, plan.runs, strict=True)):
        await add_run(
            session,
            submission,
            planned,
            pinned,
            run_id=uuid4(),
            experiment_id=experiment_id,
            position=position,
        )
