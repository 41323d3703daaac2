"""Check a pipeline against itself and the catalogue: its graph, its members, its aggregations; all errors at once."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pydantic import JsonValue

from vlmhyperbench.errors import InvalidInput, VlmHyperBenchError
from vlmhyperbench.registry.errors import Path
from vlmhyperbench.registry.pipelines import (
    MAX_DEPTH,
    AggregationChoice,
    MemberChoice,
    PipelineFields,
    PipelineStage,
    models_of,
    written_out,
)
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.schemas import ModelEntry, PipelineEntry
from vlmhyperbench.registry.validation import validate
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.endpoint import problems_with
from vlmhyperbench_sdk.net import parse_url
from vlmhyperbench_sdk.suggestions import did_you_mean

MERGING = "synthesis"
NEEDS_NO_MODEL = frozenset({"concat", "vote"})


def check_pipeline(references: References, name: str) -> None:
    """Check an entry; what is wrong is added to the problems."""
    entry = references.catalogue.pipelines[name]
    for no, required in enumerate(entry.requires):
        references.find(references.catalogue.models, "models", required, ("requires", no))
    ids = [stage.id for stage in entry.stages]
    for no, stage in enumerate(entry.stages):
        _stage(references, name, no, stage, ids)


def check_draft(references: References, name: str, draft: Mapping[str, JsonValue]) -> PipelineEntry | None:
    """Check an entry that nobody has saved, and return it if it can be read; what is wrong is added to the problems.

    Where some stages cannot be read, the others are checked all the same, so that all problems are known at once.
    """
    entry, problems = validate(PipelineEntry, dict(draft))
    references.problems.extend(problems)
    if entry is not None:
        catalogue = replace(references.catalogue, pipelines={**references.catalogue.pipelines, name: entry})
        check_pipeline(replace(references, catalogue=catalogue), name)
        return entry
    written = draft.get("stages")
    stages = written if isinstance(written, list) else []
    ids = [str(stage.get("id", "")) if isinstance(stage, dict) else "" for stage in stages]
    for no, value in enumerate(stages):
        stage, _ = validate(PipelineStage, value)
        if stage is not None:
            _stage(references, name, no, stage, ids)
        elif isinstance(value, dict):
            _unread_stage(references, no, value, ids)
    return None


def _unread_stage(references: References, no: int, value: Mapping[str, JsonValue], ids: Sequence[str]) -> None:
    """Check the names in a stage that cannot be read as a whole: of its models, and of the stages before it."""
    given = value.get("input_from")
    inputs = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    _inputs(
        references, no, ids, [source for source in inputs if isinstance(source, str)], is_one=isinstance(given, str)
    )
    models = value.get("models")
    named: list[tuple[JsonValue, Path]] = [(value.get("model"), ("stages", no, "model"))]
    if isinstance(models, list):
        named += [(model, ("stages", no, "models", position)) for position, model in enumerate(models)]
    for model, path in named:
        if isinstance(model, str):
            references.find(references.catalogue.models, "models", model, path)


def _stage(references: References, name: str, no: int, stage: PipelineStage, ids: Sequence[str]) -> None:
    """Check one stage; `ids` are those of all stages in their order."""
    if stage.id in ids[:no]:
        references.say(("stages", no, "id"), f"two stages are called {stage.id!r}.", "Rename one of them.")
    _inputs(references, no, ids, stage.inputs, is_one=isinstance(stage.input_from, str))
    for member, path in _members(stage, no):
        is_merger = "aggregation" in path
        _member(references, name, member, path, needs_images=stage.images is True and not is_merger)
    _repeats(references, no, stage)
    if stage.aggregation is not None:
        _aggregation(references, stage.aggregation, ("stages", no, "aggregation"))


def _inputs(references: References, no: int, ids: Sequence[str], inputs: Sequence[str], *, is_one: bool) -> None:
    """Check the stages that one gets answers of; `is_one` if they are not written as a list."""
    path: Path = ("stages", no, "input_from")
    earlier = ids[:no]
    if no and not inputs:
        cure = f"Add input_from: {earlier[-1]}, or another earlier stage."
        references.say(("stages", no), "only the first stage has no input_from.", cure)
    for position, source in enumerate(inputs):
        at = path if is_one else (*path, position)
        if source in earlier:
            if source in inputs[:position]:
                references.say(at, f"{source!r} is named twice.", "Remove one of them.")
            continue
        cure = did_you_mean(source, earlier, nothing="Leave input_from out: the first stage gets the question.")
        if source == ids[no]:
            references.say(at, "the stage refers to itself.", cure)
        elif source in ids:
            references.say(at, f"the stage {source!r} comes later.", "Move it up, or name an earlier stage.")
        else:
            references.say(at, f"there is no stage called {source!r}.", cure)


def _members(stage: PipelineStage, no: int) -> Iterator[tuple[MemberChoice, Path]]:
    """Yield the members of a stage with their paths; a name is at the path itself, a choice's one below it."""
    if stage.model is not None:
        yield from _located(stage.model, ("stages", no, "model"))
    for position, member in enumerate(stage.models):
        yield from _located(member, ("stages", no, "models", position))
    if stage.aggregation is not None and stage.aggregation.model is not None:
        yield from _located(stage.aggregation.model, ("stages", no, "aggregation", "model"))


def _located(member: str | MemberChoice, path: Path) -> Iterator[tuple[MemberChoice, Path]]:
    choice = written_out(member)
    key = "model" if choice.model is not None else "pipeline" if choice.pipeline is not None else "endpoint"
    yield choice, path if isinstance(member, str) else (*path, key)


def _member(references: References, name: str, member: MemberChoice, path: Path, *, needs_images: bool) -> None:
    catalogue = references.catalogue
    if member.pipeline is not None:
        _nested(references, name, member.pipeline, path)
        return
    if member.endpoint is not None:
        _endpoint(references, member, member.endpoint, path)
        return
    model = references.find(catalogue.models, "models", member.name, path)
    if model is None:
        return
    if member.backend is not None and member.backend not in model.backends:
        cure = did_you_mean(member.backend, model.backends)
        references.say((*path[:-1], "backend"), f"{member.name} does not run on {member.backend!r}.", cure)
    if needs_images and is_text_only(model):
        message = f"{member.name} has no image projector, so it cannot see the images that the stage asks for."
        references.say(path, message, "Choose a model with mmproj, or write images: false.")


def _endpoint(references: References, member: MemberChoice, endpoint: str, path: Path) -> None:
    try:
        parse_url(endpoint)
    except InvalidInput as error:
        references.say(path, error.message, error.cure)
    for problem in problems_with(member.engine_params):
        references.say((*path[:-1], "engine_params", *problem.path), problem.message, problem.cure)


def is_text_only(model: ModelEntry) -> bool:
    """Return whether a model is known to read no images: GGUF weights without a projector."""
    return "weights" in model.files and "mmproj" not in model.files


def _nested(references: References, name: str, pipeline: str, path: Path) -> None:
    """Check a pipeline within a pipeline: it exists, does not contain this one, and is not too deep."""
    if pipeline != name and references.find(references.catalogue.pipelines, "pipelines", pipeline, path) is None:
        return
    chain = _chain_to(references, pipeline, name, set())
    if chain is not None:
        circle = " → ".join((name, *chain))
        references.say(path, f"the pipeline contains itself: {circle}.", "Leave one of them out.")
        return
    level = {pipeline}
    for _ in range(MAX_DEPTH - 1):
        level = {inner for outer in level for inner in _pipelines_in(references, outer)}
    if level:
        references.say(path, f"pipelines are nested more than {MAX_DEPTH} deep.", "Write the inner stages out.")


def _chain_to(references: References, start: str, wanted: str, seen: set[str]) -> tuple[str, ...] | None:
    """Return the pipelines from one to another that it contains, both included; None if it does not contain it."""
    if start == wanted:
        return (start,)
    seen.add(start)
    for inner in _pipelines_in(references, start):
        chain = _chain_to(references, inner, wanted, seen) if inner not in seen else None
        if chain is not None:
            return (start, *chain)
    return None


def _pipelines_in(references: References, name: str) -> list[str]:
    entry: PipelineFields | None = references.catalogue.pipelines.get(name)
    named = [member.pipeline for member, _ in models_of(entry) if member.pipeline is not None] if entry else []
    return list(dict.fromkeys(named))


def _repeats(references: References, no: int, stage: PipelineStage) -> None:
    members = stage.members
    for position, member in enumerate(members):
        if member in members[:position]:
            message = f"{member.name} answers twice in the same way."
            cure = "Leave it out and give the other more weight, or let its generation or engine_params differ."
            references.say(("stages", no, "models", position), message, cure)


def _aggregation(references: References, choice: AggregationChoice, path: Path) -> None:
    if choice.type == MERGING and choice.model is None:
        references.say(path, "a synthesis needs a model that merges.", "Add model.")
    if choice.type in NEEDS_NO_MODEL and choice.model is not None:
        references.say(
            (*path, "model"), f"a {choice.type} asks no model.", "Leave model out, or write type: synthesis."
        )
    if references.plugin("aggregations", choice.type, None, (*path, "type")) is None:
        return
    try:
        known = inspect.signature(discovery.load("aggregations", choice.type)).parameters
        unknown = [param for param in choice.params if param not in known]
        for param in unknown:
            references.say((*path, param), f"{choice.type} has no such param.", did_you_mean(param, known))
        if not unknown:
            discovery.construct("aggregations", choice.type, choice.params, called=choice.type)
    except VlmHyperBenchError as error:
        references.say(path, error.message, error.cure)
