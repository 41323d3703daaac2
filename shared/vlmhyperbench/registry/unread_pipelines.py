"""Check what can be read of a pipeline that cannot be read whole, so that all of its mistakes are known at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from vlmhyperbench.registry.errors import Path
from vlmhyperbench.registry.pipeline_checks import (
    check_aggregation,
    check_id,
    check_inputs,
    check_member,
    check_pipeline,
    check_stage,
)
from vlmhyperbench.registry.pipelines import KEYS, AggregationChoice, MemberChoice, PipelineStage, misfits
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.schemas import PipelineEntry
from vlmhyperbench.registry.validation import validate

_WHAT_ANSWERS: Final = frozenset({"model", "endpoint", "pipeline", "model_name"})


def check_draft(references: References, name: str, draft: Mapping[str, JsonValue]) -> PipelineEntry | None:
    """Check an entry that nobody has saved, and return it if it can be read; what is wrong is added to the problems."""
    entry, problems = validate(PipelineEntry, dict(draft))
    references.problems.extend(problems)
    if entry is None:
        check_unread(references, name, draft)
        return None
    catalogue = replace(references.catalogue, pipelines={**references.catalogue.pipelines, name: entry})
    check_pipeline(replace(references, catalogue=catalogue), name)
    return entry


def check_unread(references: References, name: str, written: Mapping[str, JsonValue]) -> None:
    """Check the stages of an entry that cannot be read; what is wrong is added to the problems."""
    for no, required in enumerate(_items(written.get("requires"))):
        if isinstance(required, str):
            references.find(references.catalogue.models, "models", required, ("requires", no))
    stages = _items(written.get("stages"))
    ids = [str(stage.get("id", "")) if isinstance(stage, dict) else "" for stage in stages]
    for no, value in enumerate(stages):
        stage, _ = validate(PipelineStage, value)
        if stage is not None:
            check_stage(references, name, no, stage, ids)
        elif isinstance(value, dict):
            _stage(references, name, no, value, ids)


def _stage(references: References, name: str, no: int, value: Mapping[str, JsonValue], ids: Sequence[str]) -> None:
    if ids[no]:
        check_id(references, no, ids)
    given = value.get("input_from")
    inputs = [given] if isinstance(given, str) else _items(given)
    check_inputs(
        references, no, ids, [source for source in inputs if isinstance(source, str)], is_one=isinstance(given, str)
    )
    models, kind = _items(value.get("models")), value.get("type")
    if isinstance(kind, str) and kind in KEYS:
        optional = sum(isinstance(member, dict) and member.get("optional") is True for member in models)
        for message, cure in misfits(kind, value, members=len(models), optional=optional):
            references.say(("stages", no), f"{message}.", cure)
    named: list[tuple[JsonValue, Path]] = [(value.get("model"), ("stages", no, "model"))]
    named += [(model, ("stages", no, "models", position)) for position, model in enumerate(models)]
    for member, path in named:
        _member(references, name, member, path, needs_images=value.get("images") is True)
    aggregation = value.get("aggregation")
    if isinstance(aggregation, dict):
        _aggregation(references, name, aggregation, ("stages", no, "aggregation"), members=len(models))


def _aggregation(
    references: References, name: str, value: Mapping[str, JsonValue], path: Path, *, members: int
) -> None:
    if "model" in value:
        _member(references, name, value["model"], (*path, "model"), needs_images=False)
        value = {**value, "model": "checked-already"}
    choice, _ = validate(AggregationChoice, dict(value))
    if choice is not None:
        check_aggregation(references, choice, path, members=members)


def _member(references: References, name: str, value: JsonValue, path: Path, *, needs_images: bool) -> None:
    """Check a member without its keys that cannot be read."""
    written: JsonValue = value if not isinstance(value, str) else dict[str, JsonValue](model=value)
    if not isinstance(written, dict):
        return
    choice, problems = validate(MemberChoice, written)
    wrong = {str(problem.path[0]) for problem in problems if problem.path}
    if choice is None and wrong and not wrong & _WHAT_ANSWERS:
        choice, problems = validate(MemberChoice, {key: given for key, given in written.items() if key not in wrong})
        for problem in problems:
            references.say((*path, *problem.path), problem.message, problem.cure)
    if choice is not None:
        check_member(references, name, choice, path, is_name=isinstance(value, str), needs_images=needs_images)


def _items(value: JsonValue) -> Sequence[JsonValue]:
    return value if isinstance(value, list) else []
