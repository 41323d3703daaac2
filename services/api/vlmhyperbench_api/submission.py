"""Submit runs and experiments: resolve names to pinned specs, plan, and write everything in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Literal
from uuid import UUID, uuid4

from pydantic import JsonValue

from vlmhyperbench.db import experiments, idempotency, jobs, runs, tallies
from vlmhyperbench.db.claim_phases import open_of_run
from vlmhyperbench.db.engine import AsyncSession
from vlmhyperbench.db.keeping import keep_answers
from vlmhyperbench.db.views import RunView
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.planning import PlannedJob, plan_experiment, plan_rescoring, plan_run, target_digest
from vlmhyperbench.domain.specs import ImportTarget, RunSpec
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound
from vlmhyperbench.exchange.answers import answers_key
from vlmhyperbench.registry.importing import resolve_import
from vlmhyperbench.registry.loading import Catalogue
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.resolution import replaced_data, resolve_experiment, resolve_rescoring, resolve_run
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.scoring.extraction import open_extractor
from vlmhyperbench.storage import STORAGE_SCHEME
from vlmhyperbench.wire.answers import Answers, RunImport
from vlmhyperbench.wire.runs import ExperimentCreate, ExperimentDetail, RunCreate, RunDetail, RunRerun, RunRescore
from vlmhyperbench_api.answer_files import AnswerFiles
from vlmhyperbench_api.baselines import check_baseline, pin_baseline
from vlmhyperbench_api.reading import read_experiment, read_run
from vlmhyperbench_api.security import Principal


async def submit_run(
    runtime: Runtime, catalogue: Catalogue, body: RunCreate, principal: Principal, key: str | None
) -> RunDetail:
    """Create a run with its first job and event, or return the one that the key stands for.

    Raises:
        InvalidInput: names that do not exist, or that do not go together; all errors at once.
        Conflict: the key was used with another body.
    """
    created = await _submit(runtime, body, principal, key, partial(_resolve_run, runtime, catalogue, body))
    return created.model_copy(update={"warnings": _warnings(catalogue, "runs", body.run)})


async def submit_import(
    runtime: Runtime,
    catalogue: Catalogue,
    answer_files: AnswerFiles,
    body: RunImport,
    principal: Principal,
    key: str | None,
) -> RunDetail:
    """Create a run that takes its answers from a file, or return the one that the key stands for.

    Raises:
        InvalidInput: the file was not sent; names that do not exist.
        Conflict: the key was used with another body.
    """
    with _names_are_input():
        found = await answer_files.describe(principal.project_id, body.answers)
    resolve = partial(_resolve_import, runtime, catalogue, body, found, principal.project_id)
    return await _submit(runtime, body, principal, key, resolve)


async def _submit(
    runtime: Runtime,
    body: RunCreate | RunImport,
    principal: Principal,
    key: str | None,
    resolve: Callable[[], tuple[str, RunSpec]],
) -> RunDetail:
    run_id = uuid4()
    async with runtime.database.transaction() as session:
        known = await _claim(session, body, principal, key, "run", run_id)
        if known is not None:
            return await read_run(session, known, project_id=principal.project_id)
        name, spec = await asyncio.to_thread(resolve)
        spec = await pin_baseline(session, spec, project_id=principal.project_id)
        await _add_run(
            session, spec, plan_run(spec), principal=principal, run_id=run_id, name=name, priority=body.priority
        )
        created = await read_run(session, run_id, project_id=principal.project_id)
    await runtime.bus.push_wake()
    await runtime.bus.publish(run_id, created.event_seq)
    return created


async def submit_rescoring(
    runtime: Runtime, catalogue: Catalogue, parent_id: UUID, body: RunRescore, principal: Principal, key: str | None
) -> RunDetail:
    """Create a run that keeps the answers of another, or return the one that the key stands for.

    Raises:
        NotFound: there is no such run in this project.
        InvalidInput: a metric or an extractor cannot be had.
        Conflict: the run has not ended, or has no answers; or the key was used with another body.
    """

    async def add(session: AsyncSession, parent: RunView, run_id: UUID) -> None:
        kept_spec = RunSpec.model_validate(parent.spec)
        spec = await asyncio.to_thread(resolve_rescoring, catalogue, kept_spec, body, plugins=_plugins(runtime))
        name = body.name or f"{parent.name}, re-scored"
        run = await _add_child(session, spec, [], parent, principal=principal, run_id=run_id, name=name, body=body)
        kept = await keep_answers(session, run, parent)
        planned = plan_rescoring(spec, total=parent.total or 0, kept=kept)
        for phase in planned.phases:
            await open_of_run(session, run_id, phase)
        await jobs.add(session, planned.jobs, project_id=run.project_id, run_id=run_id, priority=body.priority)

    return await _submit_child(runtime, parent_id, body, principal, key, add)


async def submit_rerun(
    runtime: Runtime, catalogue: Catalogue, parent_id: UUID, body: RunRerun, principal: Principal, key: str | None
) -> RunDetail:
    """Create a run that keeps of another what has not changed, or return the one that the key stands for.

    Raises:
        NotFound: there is no such run in this project.
        InvalidInput: names that do not exist.
        Conflict: the run has not ended, or nothing of it failed; or the key was used with another body.
    """

    async def add(session: AsyncSession, parent: RunView, run_id: UUID) -> None:
        if not parent.state.is_terminal:
            raise Conflict(f"The run {parent.id} has not ended.", cure="Wait until it has ended.", code="run_open")
        failed = sum(one.failed for one in (await tallies.of_runs(session, [parent.id])).values())
        if body.retry_failed and not failed:
            raise Conflict("No request of the run failed.", cure="Leave out retry_failed.", code="nothing_failed")
        name, spec = await asyncio.to_thread(_resolve_rerun, runtime, catalogue, parent, body)
        spec = await pin_baseline(session, spec, project_id=parent.project_id, experiment_id=parent.experiment_id)
        planned = plan_run(spec, is_fresh=body.force == "index")
        await _add_child(session, spec, planned, parent, principal=principal, run_id=run_id, name=name, body=body)

    return await _submit_child(runtime, parent_id, body, principal, key, add)


async def _submit_child(
    runtime: Runtime,
    parent_id: UUID,
    body: RunRescore | RunRerun,
    principal: Principal,
    key: str | None,
    add: Callable[[AsyncSession, RunView, UUID], Awaitable[None]],
) -> RunDetail:
    run_id = uuid4()
    async with runtime.database.transaction() as session:
        known = await _claim(session, body, principal, key, "run", run_id, about=parent_id)
        if known is not None:
            return await read_run(session, known, project_id=principal.project_id)
        parent = await runs.get(session, parent_id, project_id=principal.project_id)
        if parent is None:
            raise NotFound(f"There is no run {parent_id}.", cure="List the runs to see which there are.")
        await add(session, parent, run_id)
        created = await read_run(session, run_id, project_id=principal.project_id)
    await runtime.bus.push_wake()
    await runtime.bus.publish(run_id, created.event_seq)
    return created


async def _add_child(
    session: AsyncSession,
    spec: RunSpec,
    planned: Sequence[PlannedJob],
    parent: RunView,
    *,
    principal: Principal,
    run_id: UUID,
    name: str,
    body: RunRescore | RunRerun,
) -> RunView:
    return await _add_run(
        session,
        spec,
        planned,
        principal=principal,
        run_id=run_id,
        name=name,
        priority=body.priority,
        parent_run_id=parent.id,
    )


async def submit_experiment(
    runtime: Runtime, catalogue: Catalogue, body: ExperimentCreate, principal: Principal, key: str | None
) -> ExperimentDetail:
    """Create an experiment with its runs, jobs and events, or return the one that the key stands for.

    Raises:
        InvalidInput: names that do not exist, or that do not go together; all errors at once.
        Conflict: the key was used with another body.
    """
    experiment_id = uuid4()
    async with runtime.database.transaction() as session:
        known = await _claim(session, body, principal, key, "experiment", experiment_id)
        if known is not None:
            return await read_experiment(session, known, project_id=principal.project_id)
        name, specs = await asyncio.to_thread(_resolve_experiment, runtime, catalogue, body)
        await _add_experiment(
            session, specs, principal=principal, experiment_id=experiment_id, name=name, priority=body.priority
        )
        created = await read_experiment(session, experiment_id, project_id=principal.project_id)
    await runtime.bus.push_wake()
    await publish_all(runtime, created)
    return created.model_copy(update={"warnings": _warnings(catalogue, "experiments", body.experiment)})


async def publish_all(runtime: Runtime, experiment: ExperimentDetail) -> None:
    """Say that an experiment's stream and those of its runs have events; call it after the commit."""
    await runtime.bus.publish(experiment.id, experiment.event_seq)
    for run in experiment.runs:
        await runtime.bus.publish(run.id, run.event_seq)


def _warnings(catalogue: Catalogue, kind: str, wanted: str | RunEntry | ExperimentEntry) -> list[str]:
    entry = catalogue.of(kind)[wanted] if isinstance(wanted, str) else wanted
    return replaced_data(catalogue, entry) if isinstance(entry, RunEntry | ExperimentEntry) else []


def _resolve_run(runtime: Runtime, catalogue: Catalogue, body: RunCreate) -> tuple[str, RunSpec]:
    with _names_are_input():
        entry = catalogue.look_up(catalogue.runs, "runs", body.run) if isinstance(body.run, str) else body.run
        return _name(body.name, body.run, entry), resolve_run(catalogue, entry, plugins=_plugins(runtime))


def _resolve_import(
    runtime: Runtime, catalogue: Catalogue, body: RunImport, found: Answers, project_id: str
) -> tuple[str, RunSpec]:
    with _names_are_input():
        path = f"{STORAGE_SCHEME}{answers_key(project_id, found.sha256)}"
        spec = resolve_import(catalogue, found, body, storage_path=path, plugins=_plugins(runtime))
    return body.name or f"{spec.target.served_name}, imported", spec


def _plugins(runtime: Runtime) -> InstalledPlugins:
    return InstalledPlugins(adapters=runtime.settings.engine_environment.adapters)


def _resolve_rerun(runtime: Runtime, catalogue: Catalogue, parent: RunView, body: RunRerun) -> tuple[str, RunSpec]:
    spec = RunSpec.model_validate(parent.spec)
    if body.run is not None:
        _, spec = _resolve_run(runtime, catalogue, RunCreate(run=body.run))
    elif not isinstance(spec.target, ImportTarget):
        problem = _plugins(runtime).problem_with("backends", spec.target.backend_class)
        if problem is not None:
            raise InvalidInput(f"The run cannot be asked again: {problem[0]}", cure=problem[1])
    with _names_are_input():  # said before anything is asked, not when it is scored
        for extractor in spec.extractors:
            open_extractor(extractor)
    kept = "cache" if spec.reuse == "cache" else "equal"
    forced = {"index": "nothing", "inference": "nothing", "evaluation": "answers"}
    keeps = forced.get(body.force or "", kept)
    return body.name or f"{parent.name}, again", spec.model_copy(update={"reuse": keeps})


def _resolve_experiment(
    runtime: Runtime, catalogue: Catalogue, body: ExperimentCreate
) -> tuple[str, list[tuple[str, RunSpec]]]:
    with _names_are_input():
        wanted = body.experiment
        entry = catalogue.look_up(catalogue.experiments, "experiments", wanted) if isinstance(wanted, str) else wanted
        return _name(body.name, wanted, entry), resolve_experiment(catalogue, entry, plugins=_plugins(runtime))


def _name(given: str | None, wanted: str | RunEntry | ExperimentEntry, entry: RunEntry | ExperimentEntry) -> str:
    return given or (wanted if isinstance(wanted, str) else entry.name) or "unnamed"


@contextmanager
def _names_are_input() -> Iterator[None]:
    """A name in a body that does not exist makes the body wrong; it is not the address that was not found."""
    try:
        yield
    except NotFound as error:
        raise InvalidInput(error.message, cure=error.cure, code="unknown_name") from error


async def _claim(
    session: AsyncSession,
    body: RunCreate | RunImport | RunRescore | RunRerun | ExperimentCreate,
    principal: Principal,
    key: str | None,
    resource: Literal["run", "experiment"],
    resource_id: UUID,
    *,
    about: UUID | None = None,
) -> UUID | None:
    """Take the idempotency key; return what it stands for already, or None where this request creates it."""
    if key is None:
        return None
    claimed = await idempotency.claim(
        session,
        principal=f"{principal.project_id}/{principal.name}",
        key=key,
        body_sha256=digest_of(
            {
                "resource": resource if about is None else f"{resource} {about}",
                "body": body.model_dump(mode="json", exclude_unset=True),
            }
        ),
        resource=resource,
        resource_id=resource_id,
    )
    return None if claimed.is_new else claimed.resource_id


async def _add_experiment(
    session: AsyncSession,
    specs: Sequence[tuple[str, RunSpec]],
    *,
    principal: Principal,
    experiment_id: UUID,
    name: str,
    priority: int,
) -> None:
    for _, spec in specs:
        await check_baseline(session, spec, project_id=principal.project_id)
    plan = plan_experiment([spec for _, spec in specs])
    pinned: dict[str, JsonValue] = {
        "runs": [{"name": run_name, "spec": spec.model_dump(mode="json")} for run_name, spec in specs]
    }
    await experiments.add(
        session,
        project_id=principal.project_id,
        created_by=principal.name,
        name=name,
        spec=pinned,
        spec_digest=digest_of(pinned),
        experiment_id=experiment_id,
    )
    await jobs.add(session, plan.jobs, project_id=principal.project_id, experiment_id=experiment_id, priority=priority)
    for position, ((run_name, spec), planned) in enumerate(zip(specs, plan.runs, strict=True)):
        await _add_run(
            session,
            spec,
            planned,
            principal=principal,
            run_id=uuid4(),
            name=run_name,
            priority=priority,
            experiment_id=experiment_id,
            position=position,
        )


async def _add_run(
    session: AsyncSession,
    spec: RunSpec,
    planned: Sequence[PlannedJob],
    *,
    principal: Principal,
    run_id: UUID,
    name: str,
    priority: int,
    experiment_id: UUID | None = None,
    parent_run_id: UUID | None = None,
    position: int = 0,
) -> RunView:
    run = await runs.add(
        session,
        project_id=principal.project_id,
        created_by=principal.name,
        name=name,
        spec=spec,
        run_id=run_id,
        experiment_id=experiment_id,
        parent_run_id=parent_run_id,
        position=position,
        priority=priority,
    )
    await jobs.add(
        session,
        planned,
        project_id=principal.project_id,
        run_id=run_id,
        experiment_id=experiment_id,
        priority=priority,
        target_digest=target_digest(spec),
    )
    return run
