"""The five kinds of submission: each resolves names outside transactions, then writes in one transaction."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias, TypeVar
from uuid import UUID, uuid4

from vlmhyperbench.db import memory, runs, tallies
from vlmhyperbench.db.engine import AsyncSession
from vlmhyperbench.db.views import RunView
from vlmhyperbench.domain.asking import targets_of
from vlmhyperbench.domain.planning import plan_run
from vlmhyperbench.domain.specs import RunSpec, Target
from vlmhyperbench.errors import Conflict, NotFound
from vlmhyperbench.monitoring.recording import count
from vlmhyperbench.monitoring.trace_context import incoming, owner_context
from vlmhyperbench.monitoring.tracing import record_below
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.wire.answers import RunImport
from vlmhyperbench.wire.runs import ExperimentCreate, ExperimentDetail, RunCreate, RunDetail, RunRerun, RunRescore
from vlmhyperbench.wire.sessions import SessionCreate, SessionRerun
from vlmhyperbench_api.answer_files import AnswerFiles
from vlmhyperbench_api.baselines import pin_baseline
from vlmhyperbench_api.reading import read_experiment, read_run
from vlmhyperbench_api.submission.estimating import estimates_of
from vlmhyperbench_api.submission.request import Body, ChildSubmission, Submission
from vlmhyperbench_api.submission.resolving import (
    PinnedRun,
    names_are_input,
    pin_experiment,
    pin_import,
    pin_rerun,
    pin_rescoring,
    pin_run,
    pin_session,
    pin_session_rerun,
    warnings_of,
)
from vlmhyperbench_api.submission.writing import add_experiment, add_rescoring, add_run

RunBody = TypeVar("RunBody", RunCreate, RunImport, RunRescore, RunRerun, SessionCreate, SessionRerun)
Detail = TypeVar("Detail", RunDetail, ExperimentDetail)
Write: TypeAlias = Callable[[AsyncSession, UUID], Awaitable[None]]
"""Writes the resolved run or experiment under a new id."""
Resolve: TypeAlias = Callable[[], Awaitable[tuple[Write, Sequence[Target]]]]
"""Reads files and looks up names, outside any transaction; returns also the targets that will be asked."""


async def submit_run(submission: Submission[RunCreate]) -> RunDetail:
    """Create a run with its first job and event, or return the run that was already created with the key.

    Raises:
        InvalidInput: names are unknown or incompatible; lists all errors.
        Conflict: the key was used with another body.
    """

    async def resolve() -> tuple[Write, Sequence[Target]]:
        pinned = await asyncio.to_thread(pin_run, submission)
        return _write_fresh(submission, pinned), targets_of([pinned.spec])

    created = await _submit_run(submission, resolve)
    return created.model_copy(update={"warnings": warnings_of(submission, [created.spec])})


async def submit_import(submission: Submission[RunImport], answer_files: AnswerFiles) -> RunDetail:
    """Create a run that imports the answers of a file, or return the run that was already created with the key.

    Raises:
        InvalidInput: the file was not uploaded, or names are unknown.
        Conflict: the key was used with another body.
    """

    async def resolve() -> tuple[Write, Sequence[Target]]:
        with names_are_input():
            answers = await answer_files.describe(submission.project_id, submission.body.answers)
        pinned = await asyncio.to_thread(pin_import, submission, answers)
        return _write_fresh(submission, pinned), targets_of([pinned.spec])

    return await _submit_run(submission, resolve)


async def submit_rescoring(submission: ChildSubmission[RunRescore]) -> RunDetail:
    """Create a run that re-scores another, or return the run that was already created with the key.

    Raises:
        NotFound: the other run does not exist in this project.
        InvalidInput: a metric or an extractor is not available.
        Conflict: the run has not ended, or has no answers; or the key was used with another body.
    """

    async def resolve() -> tuple[Write, Sequence[Target]]:
        parent, _ = await _read_parent(submission)
        pinned = await asyncio.to_thread(pin_rescoring, submission, parent)

        async def write(session: AsyncSession, run_id: UUID) -> None:
            await add_rescoring(session, submission, parent, pinned, run_id=run_id)

        return write, targets_of([pinned.spec])

    return await _submit_run(submission, resolve)


async def submit_rerun(submission: ChildSubmission[RunRerun]) -> RunDetail:
    """Create a run that repeats another and reuses what has not changed, or return the one created with the key.

    Raises:
        NotFound: the other run does not exist in this project.
        InvalidInput: names are unknown.
        Conflict: the other run has not ended, or with `retry_failed` nothing of it failed; or the key was used with
            another body.
    """

    async def resolve() -> tuple[Write, Sequence[Target]]:
        parent, failed = await _read_parent(submission)
        if not parent.state.is_terminal:
            raise Conflict(f"The run {parent.id} has not ended.", cure="Wait until it has ended.", code="run_open")
        if submission.body.retry_failed and not failed:
            raise Conflict("No request of the run failed.", cure="Leave out retry_failed.", code="nothing_failed")
        pinned = await asyncio.to_thread(pin_rerun, submission, parent)
        write = _write_fresh(submission, pinned, parent=parent, is_fresh=submission.body.force == "index")
        return write, targets_of([pinned.spec])

    return await _submit_run(submission, resolve)


async def submit_session(submission: Submission[SessionCreate], answer_files: AnswerFiles) -> RunDetail:
    """Create a run that asks a pipeline one question, or return the run that was already created with the key.

    Raises:
        InvalidInput: the question was not uploaded, is not one, or has an image that cannot be sent; or the pipeline is
            unknown or cannot be asked.
        Conflict: the key was used with another body.
    """

    async def resolve() -> tuple[Write, Sequence[Target]]:
        with names_are_input():
            images = await answer_files.images_of_question(submission.project_id, submission.body.question)
        pinned = await asyncio.to_thread(partial(pin_session, submission, images=images))
        return _write_fresh(submission, pinned), targets_of([pinned.spec])

    return await _submit_run(submission, resolve)


async def submit_session_rerun(submission: ChildSubmission[SessionRerun]) -> RunDetail:
    """Create a session that asks a stage of another one again, or return the run already created with the key.

    Raises:
        NotFound: the other session does not exist in this project.
        InvalidInput: its pipeline has no such stage.
        Conflict: the other session has not ended; or the key was used with another body.
    """

    async def resolve() -> tuple[Write, Sequence[Target]]:
        parent, _ = await _read_parent(submission)
        if not parent.state.is_terminal:
            raise Conflict(f"The session {parent.id} has not ended.", cure="Wait until it has ended.", code="run_open")
        pinned = pin_session_rerun(submission, parent)
        return _write_fresh(submission, pinned, parent=parent), targets_of([pinned.spec])

    return await _submit_run(submission, resolve)


async def submit_experiment(submission: Submission[ExperimentCreate]) -> ExperimentDetail:
    """Create an experiment with its runs, jobs and events, or return the one already created with the key.

    Raises:
        InvalidInput: names are unknown or incompatible; lists all errors.
        Conflict: the key was used with another body.
    """
    specs: list[RunSpec] = []

    async def resolve() -> tuple[Write, Sequence[Target]]:
        name, pinned = await asyncio.to_thread(pin_experiment, submission)
        specs.extend(run.spec for run in pinned)

        async def write(session: AsyncSession, experiment_id: UUID) -> None:
            await add_experiment(session, submission, pinned, experiment_id=experiment_id, name=name)

        return write, targets_of([run.spec for run in pinned])

    read = partial(read_experiment, project_id=submission.project_id)
    result, is_new = await _submit(submission, resolve, read)
    if not is_new:
        return result
    await publish_all(submission.runtime, result)
    return result.model_copy(update={"warnings": warnings_of(submission, specs)})


async def publish_all(runtime: Runtime, experiment: ExperimentDetail) -> None:
    """Publish that the streams of an experiment and of its runs have new events; call it after the commit."""
    await runtime.bus.publish(experiment.id, experiment.event_seq)
    for run in experiment.runs:
        await runtime.bus.publish(run.id, run.event_seq)


async def _submit_run(submission: Submission[RunBody], resolve: Resolve) -> RunDetail:
    run, is_new = await _submit(submission, resolve, partial(read_run, project_id=submission.project_id))
    if is_new:
        await submission.runtime.bus.publish(run.id, run.event_seq)
    return run


async def _submit(
    submission: Submission[Body], resolve: Resolve, read: Callable[[AsyncSession, UUID], Awaitable[Detail]]
) -> tuple[Detail, bool]:
    """Return the created resource, or the one already created with the key, and whether it is new.

    A known key is handled before names are resolved: what it created does not depend on the current registry.
    """
    database, new_id = submission.runtime.database, uuid4()
    known = await submission.known()
    if known is not None:
        async with database.transaction() as session:
            return await read(session, known), False
    begun_ns = time.time_ns()
    write, targets = await resolve()
    estimates = await estimates_of(submission.runtime, targets)
    async with database.transaction() as session:
        found_id = await submission.claim(session, new_id)
        if found_id == new_id:
            await memory.write_estimates(session, estimates)
            await write(session, new_id)
        result = await read(session, found_id)
    if found_id == new_id:
        kind = "experiment" if isinstance(result, ExperimentDetail) else "run"
        count("submissions_total", kind=kind)
        record_below(owner_context(new_id, incoming.get()), "submit", start_ns=begun_ns)
        await submission.runtime.bus.push_wake()
    return result, found_id == new_id


def _write_fresh(
    submission: Submission[RunBody],
    pinned: PinnedRun,
    *,
    parent: RunView | None = None,
    is_fresh: bool = False,
) -> Write:
    """Return the function that writes a run with requests to send; `is_fresh` indexes its dataset again."""

    async def write(session: AsyncSession, run_id: UUID) -> None:
        spec = await pin_baseline(
            session,
            pinned.spec,
            project_id=submission.project_id,
            experiment_id=parent.experiment_id if parent else None,
        )
        planned = plan_run(spec, is_fresh=is_fresh)
        await add_run(session, submission, planned, replace(pinned, spec=spec), run_id=run_id)

    return write


async def _read_parent(
    submission: ChildSubmission[RunRescore] | ChildSubmission[RunRerun] | ChildSubmission[SessionRerun],
) -> tuple[RunView, int]:
    """Read the parent run and the number of its failed requests.

    Raises:
        NotFound: it does not exist in this project.
    """
    async with submission.runtime.database.transaction() as session:
        parent = await runs.get(session, submission.parent_id, project_id=submission.project_id)
        if parent is None:
            message = f"There is no run {submission.parent_id}."
            raise NotFound(message, cure="List the runs to see which there are.")
        counts = await tallies.of_runs(session, [parent.id])
    return parent, sum(tally.failed for tally in counts.values())
