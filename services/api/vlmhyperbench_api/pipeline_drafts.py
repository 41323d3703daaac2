"""Pipelines before they are asked: whether they can start, what is wrong in a draft, what one question would take."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from pydantic import JsonValue

from vlmhyperbench.data.fetching import open_cache
from vlmhyperbench.data.registered_gguf import found_of, registered_status
from vlmhyperbench.db import durations
from vlmhyperbench.domain.asking import pipeline_of
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.paces import Paces
from vlmhyperbench.domain.pipelines import AskedModel, asked_models
from vlmhyperbench.domain.run_plan import DeviceFit
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.errors import Problem, RegistryErrors, field_of
from vlmhyperbench.registry.gguf_files import BASE
from vlmhyperbench.registry.loading import check_name
from vlmhyperbench.registry.pipelines import Found, PipelineFields, blocked_by, models_of
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.schemas import PipelineEntry
from vlmhyperbench.registry.sessions import resolve_session
from vlmhyperbench.registry.unread_pipelines import check_draft
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.wire.pipelines import (
    PipelineCheck,
    PipelineDraft,
    PipelinePlan,
    PipelineProblem,
    PipelineStatus,
    PlannedStep,
    StageSummary,
)
from vlmhyperbench.wire.plans import PlannedTime
from vlmhyperbench_api.needed import fits_of, memory_of
from vlmhyperbench_api.paper import read_known, write_papers

_UNNAMED = "draft"
"""Name of a draft that has none."""
_NO_QUESTION = "0" * 64
"""Hash in the place of that of a question, which a plan does not read."""


async def listed(runtime: Runtime, catalogue: Catalogue) -> list[PipelineStatus]:
    """Return every pipeline that is not archived, the base pipeline first; invalid ones are blocked by their errors."""
    found = await _found(runtime, catalogue, list(catalogue.pipelines.values()))
    usable = [_status(catalogue, name, entry, found) for name, entry in catalogue.pipelines.items()]
    broken = [
        PipelineStatus(name=name, is_base=name == BASE, origin=_origin(catalogue, name), blocked=list(map(str, errors)))
        for (kind, name), errors in catalogue.broken.items()
        if kind == "pipelines" and not _is_archived(catalogue, name)
    ]
    return sorted([*usable, *broken], key=lambda status: (not status.is_base, status.name))


async def check(runtime: Runtime, catalogue: Catalogue, draft: PipelineDraft) -> PipelineCheck:
    """Return all that is wrong in a draft, and what would keep it from starting."""
    references = References(catalogue=catalogue, plugins=_plugins(runtime))
    name = draft.name or _UNNAMED
    try:
        check_name(name)
    except InvalidInput as error:
        references.say(("name",), error.message, error.cure)
    entry = await asyncio.to_thread(check_draft, references, name, draft.entry)
    problems = [_problem(problem) for problem in references.problems]
    if entry is None:
        return PipelineCheck(problems=problems)
    found = await _found(runtime, catalogue, [entry, *catalogue.pipelines.values()])
    return PipelineCheck(problems=problems, **blocked_by(entry, found, catalogue.pipelines)._asdict())


async def plan(runtime: Runtime, catalogue: Catalogue, draft: PipelineDraft, *, project_id: str) -> PipelinePlan:
    """Return what one question to a draft would ask, need and take.

    Raises:
        RegistryErrors: it cannot be asked; lists every error.
    """
    spec = await asyncio.to_thread(_spec, runtime, catalogue, draft)
    known = await read_known(runtime, [spec], project_id=project_id)
    asked = list(asked_models(pipeline_of(spec)))
    digests = sorted({digest_of(each.model.target) for each in asked})
    async with runtime.database.transaction() as session:
        paces = await durations.answer_paces(session, digests, project_id=project_id)
    papers = await asyncio.to_thread(write_papers, [(draft.name or _UNNAMED, spec)], known)
    steps = [_step(each, paces.get(digest_of(each.model.target))) for each in asked]
    whole = replace(known, memory={digest: need.whole for digest, need in known.memory.items()})
    needs = _needs(fits_of(spec, whole), digests)
    return PipelinePlan(
        steps=steps,
        time=time_of(steps),
        memory=memory_of(spec, known, papers),
        largest_bytes=max(needs) if needs else None,
        together_bytes=sum(needs) if needs else None,
    )


async def _found(runtime: Runtime, catalogue: Catalogue, asked: Sequence[PipelineFields]) -> Found:
    """Return what the files of the GGUF models of these pipelines are like on this machine."""
    required = {name for pipeline in asked for name in pipeline.requires}
    names = required | {member.name for pipeline in asked for member, _ in models_of(pipeline)}
    cache = open_cache(runtime.settings)
    statuses = await asyncio.to_thread(lambda: list(registered_status(catalogue, cache, names)))
    return found_of(statuses)


def _status(catalogue: Catalogue, name: str, entry: PipelineEntry, found: Found) -> PipelineStatus:
    ready = blocked_by(entry, found, catalogue.pipelines)
    return PipelineStatus(
        name=name,
        is_base=name == BASE,
        description=entry.description,
        origin=_origin(catalogue, name),
        execution_mode=entry.execution_mode,
        stages=list(_stages(entry)),
        blocked=ready.blocked,
        warnings=ready.warnings,
        doubts=ready.doubts,
    )


def _stages(entry: PipelineFields) -> list[StageSummary]:
    return [
        StageSummary(
            id=stage.id,
            type=stage.type,
            models=[member.name for member in stage.members],
            input_from=list(stage.inputs),
            aggregation=stage.aggregation.type if stage.aggregation is not None else None,
            merger=stage.merger.name if stage.merger is not None else None,
        )
        for stage in entry.stages
    ]


def _origin(catalogue: Catalogue, name: str) -> str:
    return "database" if ("pipelines", name) in catalogue.stored else "file"


def _is_archived(catalogue: Catalogue, name: str) -> bool:
    stored = catalogue.stored.get(("pipelines", name))
    return stored is not None and stored.is_archived


def _problem(problem: Problem) -> PipelineProblem:
    match problem.path:
        case ("stages", int(no), *_):
            stage: int | None = no
        case _:
            stage = None
    return PipelineProblem(stage=stage, field=field_of(problem.path), message=problem.message, cure=problem.cure)


def _spec(runtime: Runtime, catalogue: Catalogue, draft: PipelineDraft) -> RunSpec:
    plugins, name = _plugins(runtime), draft.name or _UNNAMED
    references = References(catalogue=catalogue, plugins=plugins)
    entry = check_draft(references, name, draft.entry)
    if entry is None or references.problems:
        raise RegistryErrors.of(_with_stage(problem, draft.entry) for problem in references.problems)
    candidate = replace(
        catalogue,
        pipelines={**catalogue.pipelines, name: entry},
        broken={key: errors for key, errors in catalogue.broken.items() if key != ("pipelines", name)},
    )
    return resolve_session(candidate, name, _NO_QUESTION, storage_path="", plugins=plugins)


def _with_stage(problem: Problem, entry: Mapping[str, JsonValue]) -> Problem:
    """Return a problem whose message begins with the id of its stage, if that has one."""
    stages = entry.get("stages")
    match problem.path:
        case ("stages", int(no), *_) if isinstance(stages, list) and no < len(stages):
            stage = stages[no]
            if isinstance(stage, dict) and isinstance(stage.get("id"), str):
                return replace(problem, message=f"stage {stage['id']}: {problem.message}")
    return problem


def _step(asked: AskedModel, paces: Paces | None) -> PlannedStep:
    return PlannedStep(
        stage=asked.stage.id,
        role=asked.role,
        model=asked.model.name,
        expected_s=paces.mean.answer_s if paces is not None else None,
        shortest_s=paces.fastest.answer_s if paces is not None else None,
        longest_s=paces.slowest.answer_s if paces is not None else None,
    )


def time_of(steps: Sequence[PlannedStep]) -> PlannedTime:
    """Return how long a question takes, unknown where a model was never measured; only the longest has repairs."""
    unknown = list(dict.fromkeys(step.model for step in steps if step.expected_s is None))
    if unknown:
        note = f"never measured: {', '.join(unknown)}"
        return PlannedTime(expected_s=None, shortest_s=None, longest_s=None, note=note)
    return PlannedTime(
        expected_s=sum(step.expected_s or 0 for step in steps if step.role != "repair"),
        shortest_s=sum(step.shortest_s or 0 for step in steps if step.role != "repair"),
        longest_s=sum(step.longest_s or 0 for step in steps),
        note="every step after the other, as long as an answer of its model took in earlier jobs, once it is loaded; "
        "only the longest time has repairs",
    )


def _needs(fits: Iterable[tuple[str, DeviceFit]], digests: Collection[str]) -> list[int]:
    """Return what each model needs at most on a device; nothing if that of one is unknown."""
    needs: dict[str, int] = {}
    for digest, fit in fits:
        if fit.need_bytes is None:
            return []
        needs[digest] = max(fit.need_bytes, needs.get(digest, 0))
    return list(needs.values()) if set(needs) == set(digests) else []


def _plugins(runtime: Runtime) -> InstalledPlugins:
    return InstalledPlugins(adapters=runtime.settings.engine_environment.adapters)
