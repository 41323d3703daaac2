"""Check a pipeline against itself and the catalogue: its graph, its members, its aggregations; all errors at once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

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
from vlmhyperbench.registry.schemas import ModelEntry
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
        check_stage(references, name, no, stage, ids)


def check_stage(references: References, name: str, no: int, stage: PipelineStage, ids: Sequence[str]) -> None:
    """Check one stage; `ids` are those of all stages in their order."""
    check_id(references, no, ids)
    check_inputs(references, no, ids, stage.inputs, is_one=isinstance(stage.input_from, str))
    for member, path in _members(stage, no):
        needs_images = stage.images is True and "aggregation" not in path
        is_name = isinstance(member, str)
        check_member(references, name, written_out(member), path, is_name=is_name, needs_images=needs_images)
    _repeats(references, no, stage)
    if stage.aggregation is not None:
        check_aggregation(references, stage.aggregation, ("stages", no, "aggregation"), members=len(stage.members))


def check_id(references: References, no: int, ids: Sequence[str]) -> None:
    """Check that no stage before has the name of this one."""
    if ids[no] in ids[:no]:
        references.say(("stages", no, "id"), f"two stages are called {ids[no]!r}.", "Rename one of them.")


def check_inputs(references: References, no: int, ids: Sequence[str], inputs: Sequence[str], *, is_one: bool) -> None:
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


def _members(stage: PipelineStage, no: int) -> Iterator[tuple[str | MemberChoice, Path]]:
    """Yield the members of a stage with their paths, and what merges."""
    if stage.model is not None:
        yield stage.model, ("stages", no, "model")
    for position, member in enumerate(stage.models):
        yield member, ("stages", no, "models", position)
    if stage.aggregation is not None and stage.aggregation.model is not None:
        yield stage.aggregation.model, ("stages", no, "aggregation", "model")


def check_member(
    references: References, name: str, member: MemberChoice, path: Path, *, is_name: bool, needs_images: bool
) -> None:
    """Check a member at its path; `is_name`: only its name is written there."""
    if not is_name:
        path = (*path, "model" if member.model is not None else "pipeline" if member.pipeline else "endpoint")
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


def check_aggregation(references: References, choice: AggregationChoice, path: Path, *, members: int) -> None:
    """Check an aggregation of so many members, whether it has the model that it needs, and each of its params."""
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
    except VlmHyperBenchError as error:
        references.say(path, error.message, error.cure)
        return
    for param in choice.params:
        if param not in known:
            references.say((*path, param), f"{choice.type} has no such param.", did_you_mean(param, known))
    given = {param: value for param, value in choice.params.items() if param in known}
    _params(references, choice.type, given, path)
    quorum = given.get("quorum")
    if isinstance(quorum, int) and 0 < members < quorum:
        message = f"the quorum is {quorum}, and the stage has {members} members: it would never have an answer."
        references.say((*path, "quorum"), message, f"Write at most {members}.")


def _params(references: References, name: str, params: Mapping[str, JsonValue], path: Path) -> None:
    """Report every param that an aggregation refuses.

    It refuses one at a time, so that one is left out, and it is asked again. What it then says of a param that is left
    out is no mistake of the entry.
    """
    left_out = set[str]()
    while (error := _refusal(name, params)) is not None:
        culprit = _culprit(name, params, error)
        if not _named(left_out, error):
            references.say(path if culprit is None else (*path, culprit), error.message, error.cure)
        if culprit is None:
            return
        left_out.add(culprit)
        params = _without(params, culprit)


def _refusal(name: str, params: Mapping[str, JsonValue]) -> VlmHyperBenchError | None:
    try:
        discovery.construct("aggregations", name, params, called=name)
    except VlmHyperBenchError as error:
        return error
    return None


def _culprit(name: str, params: Mapping[str, JsonValue], error: VlmHyperBenchError) -> str | None:
    """Return the param that is refused: the first that the message names, else one without which it is not said."""
    named = _named(params, error)
    if named:
        return named[0]
    for param in params:
        other = _refusal(name, _without(params, param))
        if other is None or other.message != error.message:
            return param
    return None


def _named(params: Iterable[str], error: VlmHyperBenchError) -> list[str]:
    """Return the params that a message names, in its order."""
    words = re.findall(r"\w+", error.message)
    return sorted((param for param in params if param in words), key=words.index)


def _without(params: Mapping[str, JsonValue], left_out: str) -> dict[str, JsonValue]:
    return {param: value for param, value in params.items() if param != left_out}
