"""Pin a pipeline as a target: every model that it asks, with its sampling and its images; all errors at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from vlmhyperbench.domain.decoding import Decoding
from vlmhyperbench.domain.pipelines import AggregationSpec, DroppedMember, MemberSpec, PipelineTarget, StageSpec
from vlmhyperbench.domain.response_formats import pinned_format
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.targets import EndpointTarget, ModelTarget
from vlmhyperbench.registry.choices import EndpointChoice, ModelChoice, PipelineChoice
from vlmhyperbench.registry.errors import Path
from vlmhyperbench.registry.model_files import missing_files
from vlmhyperbench.registry.pins import merge_decoding
from vlmhyperbench.registry.pipeline_checks import is_text_only
from vlmhyperbench.registry.pipelines import MemberChoice, PipelineStage
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.schemas import RunEntry, TaskEntry
from vlmhyperbench.registry.smaller import smaller_models
from vlmhyperbench.registry.targets import resolve_target
from vlmhyperbench_sdk import discovery

TRANSLATE: Final = "Translate the text from {source} to {target}. Write the translation only."


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How a run asks, which a pipeline's stages and members may replace."""

    decoding: Decoding = field(default_factory=Decoding)
    response_format: dict[str, JsonValue] | None = None
    allow_lossy: bool = False
    """Whether smaller quantisations may stand for its models."""


def pin_target(
    references: References,
    choice: ModelChoice | EndpointChoice | PipelineChoice,
    task: TaskEntry | None,
    asking: Asking,
    path: Path,
) -> ModelTarget | EndpointTarget | PipelineTarget | None:
    """Pin the target of a run, or report its problems."""
    if not isinstance(choice, PipelineChoice):
        return resolve_target(references, choice, task, path)
    at = (*path, "pipeline")
    entry = references.find(references.catalogue.pipelines, "pipelines", choice.pipeline, at)
    if entry is None:
        return None
    pinning = _Pinning(references, task, at, allow_lossy=asking.allow_lossy)
    stages = [
        pinning.stage(stage, asking, is_first=no == 0, is_last=no == len(entry.stages) - 1)
        for no, stage in enumerate(entry.stages)
    ]
    pinned = [stage for stage in stages if stage is not None]
    if len(pinned) < len(stages):
        return None
    return PipelineTarget(
        pipeline=choice.pipeline, version=entry.version, execution_mode=entry.execution_mode, stages=tuple(pinned)
    )


def check_scenario(
    references: References, entry: RunEntry, scenario: ScenarioSpec | None, where: Callable[[Path], Path]
) -> None:
    """Report what a run of a pipeline cannot have: a scenario that measures speed, or a stop rule."""
    if not isinstance(entry.target, PipelineChoice):
        return
    if scenario is not None and scenario.is_timed:
        message = f"the scenario {scenario.name!r} measures speed; a pipeline is asked model by model, in closed loop."
        references.say(where(("scenario",)), message, "Choose the kind offline, or measure each of its models.")
    if entry.stop is not None:
        message = "a pipeline has no answers before all of its models have theirs, so a stop rule cannot end it."
        references.say(where(("stop",)), message, "Leave stop out.")


class _Pinning:
    def __init__(self, references: References, task: TaskEntry | None, path: Path, *, allow_lossy: bool) -> None:
        self._references = references
        self._allow_lossy = allow_lossy
        self._task = task
        self._path = path

    def stage(self, stage: PipelineStage, asking: Asking, *, is_first: bool, is_last: bool) -> StageSpec | None:
        """Pin a stage, or report its problems."""
        decoding = merge_decoding(asking.decoding, stage.generation)
        sees = stage.images if stage.images is not None else is_first and self._can_all_see(stage)
        missing = {no: why for no, choice in enumerate(stage.members) if (why := self._missing(choice)) is not None}
        members = [
            self._member(choice, decoding, sees_images=sees)
            for no, choice in enumerate(stage.members)
            if no not in missing
        ]
        aggregation, is_whole = None, None not in members
        if stage.aggregation is not None:
            aggregation = self._aggregation(stage, decoding, sees_images=sees)
            is_whole = is_whole and aggregation is not None
        own = asking.response_format if is_last and stage.response_format is None else None
        instructions = stage.instructions
        if stage.type == "translate" and instructions is None:
            instructions = TRANSLATE.format(source=stage.source_language, target=stage.target_language)
        if not is_whole:
            return None
        return StageSpec(
            id=stage.id,
            inputs=stage.inputs,
            output_mode=stage.output_mode,
            system_prompt=stage.system_prompt,
            instructions=instructions,
            response_format=pinned_format(stage.response_format) if stage.response_format is not None else own,
            members=_named_apart([member for member in members if member is not None]),
            aggregation=aggregation,
            dropped=tuple(DroppedMember(name=stage.members[no].name, reason=why) for no, why in missing.items()),
        )

    def _missing(self, choice: MemberChoice) -> str | None:
        """Return why the files of an optional model cannot be used now; None if they may be, or it is required."""
        entry = self._references.catalogue.models.get(choice.name)
        if not choice.optional or entry is None:
            return None
        if entry.is_unpinned:
            return "its files are not fetched or made yet"
        folder = self._references.catalogue.folder_of("models", choice.name)
        gone = [] if entry.is_brought or entry.package is not None else missing_files(folder, entry)
        return f"there is no file {', '.join(gone)}" if gone else None

    def _can_all_see(self, stage: PipelineStage) -> bool:
        models = self._references.catalogue.models
        return not any(member.name in models and is_text_only(models[member.name]) for member in stage.members)

    def _member(self, choice: MemberChoice, decoding: Decoding, *, sees_images: bool) -> MemberSpec | None:
        if choice.pipeline is not None:
            message = f"the pipeline {choice.pipeline!r} is a member of it, and only models can be asked yet."
            self._references.say(self._path, message, "Write the stages of the inner pipeline out.")
            return None
        model = ModelChoice(model=choice.name, backend=choice.backend, engine_params=choice.engine_params)
        target = resolve_target(self._references, model, self._task, self._path)
        if target is None:
            return None
        return MemberSpec(
            name=choice.name,
            target=target,
            decoding=merge_decoding(decoding, choice.generation),
            weight=choice.weight,
            is_optional=choice.optional,
            sees_images=sees_images,
            smaller=smaller_models(self._references, target)
            if self._allow_lossy and isinstance(target, ModelTarget)
            else (),
        )

    def _aggregation(self, stage: PipelineStage, decoding: Decoding, *, sees_images: bool) -> AggregationSpec | None:
        choice = stage.aggregation
        if choice is None:
            return None
        plugin = self._references.plugin("aggregations", choice.type, None, self._path)
        merger = stage.merger
        pinned = None
        if merger is not None:
            models = self._references.catalogue.models
            is_blind = merger.name in models and is_text_only(models[merger.name])
            pinned = self._member(merger, decoding, sees_images=sees_images and not is_blind)
            if pinned is None:
                return None
        if plugin is None:
            return None
        return AggregationSpec(
            class_path=choice.type,
            package=plugin,
            params=dict(choice.params),
            merger=pinned,
            is_repaired=pinned is not None and hasattr(discovery.load("aggregations", choice.type), "repair"),
        )


def _named_apart(members: list[MemberSpec]) -> tuple[MemberSpec, ...]:
    """Number the members of one model, so that each has a name of its own."""
    total, seen = Counter(member.name for member in members), Counter[str]()
    named: list[MemberSpec] = []
    for member in members:
        seen[member.name] += 1
        name = f"{member.name} #{seen[member.name]}" if total[member.name] > 1 else member.name
        named.append(member.model_copy(update={"name": name}))
    return tuple(named)
