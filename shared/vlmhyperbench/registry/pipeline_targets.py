"""Pin a pipeline as a target: every model that it asks, with its sampling and its images; all errors at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pydantic import JsonValue

from vlmhyperbench.domain.decoding import Decoding
from vlmhyperbench.domain.pipelines import (
    AggregationSpec,
    DroppedMember,
    InnerMember,
    Key,
    MemberSpec,
    PipelineTarget,
    Role,
    StageSpec,
)
from vlmhyperbench.domain.request_styles import TRANSLATES, Languages, is_language_code
from vlmhyperbench.domain.response_formats import pinned_format
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.targets import EndpointTarget, ModelTarget
from vlmhyperbench.registry.choices import EndpointChoice, ModelChoice, PipelineChoice
from vlmhyperbench.registry.errors import Path, Problem
from vlmhyperbench.registry.model_files import missing_files
from vlmhyperbench.registry.pins import merge_decoding
from vlmhyperbench.registry.pipeline_checks import is_text_only
from vlmhyperbench.registry.pipelines import (
    MAX_DEPTH,
    AggregationChoice,
    MemberChoice,
    PipelineFields,
    PipelineStage,
)
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.schemas import RunEntry, TaskEntry
from vlmhyperbench.registry.smaller import smaller_models
from vlmhyperbench.registry.targets import resolve_target
from vlmhyperbench_sdk import discovery

MAX_ASKED: Final = 256
"""Most models that a pipeline asks, those of the pipelines in it counted."""
_STAGE: Final = "stage "
"""Beginning of a message that names its stage."""
TRANSLATE: Final = "Translate the text from {source} to {target}. Write the translation only."


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingDefaults:
    """How a run asks, which a pipeline's stages and members may replace."""

    decoding: Decoding = field(default_factory=Decoding)
    response_format: dict[str, JsonValue] | None = None
    allow_lossy: bool = False
    """Whether smaller quantisations may stand for its models."""


def pin_target(
    references: References,
    choice: ModelChoice | EndpointChoice | PipelineChoice,
    task: TaskEntry | None,
    asking: AskingDefaults,
    path: Path,
) -> ModelTarget | EndpointTarget | PipelineTarget | None:
    """Pin the target of a run, or report its problems."""
    if not isinstance(choice, PipelineChoice):
        return resolve_target(references, choice, task, path)
    pinned = pin_pipeline(references, choice.pipeline, task, asking, (*path, "pipeline"))
    return None if pinned is None else pinned.target


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedPipeline:
    """A pipeline, and the sampling parameters that its entry states for each model."""

    target: PipelineTarget
    own: dict[Key, Decoding]
    """Only the fields that are set replace those of a request."""


def pin_pipeline(
    references: References, name: str, task: TaskEntry | None, asking: AskingDefaults, path: Path
) -> PinnedPipeline | None:
    """Pin a pipeline with the pipelines in it, or report its problems."""
    entry = references.find(references.catalogue.pipelines, "pipelines", name, path)
    if entry is None:
        return None
    pinning = _Pinning(references, task, path)
    stages = pinning.stages(entry, asking, _Around(names=(name,)))
    if stages is None:
        return None
    target = PipelineTarget(
        pipeline=name, version=entry.version, execution_mode=entry.execution_mode, stages=tuple(stages)
    )
    return PinnedPipeline(target=target, own=pinning.own)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """What the stages of a pipeline get of the stage in which it answers; the default: it answers in none."""

    names: tuple[str, ...]
    """Its name, after those of the pipelines around it."""
    within: str | None = None
    inputs: tuple[str, ...] = ()
    system_prompt: str | None = None
    instructions: str | None = None
    sees_images: bool = True
    own: Decoding = field(default_factory=Decoding)
    """Sampling parameters that the pipelines around it state."""

    def id_of(self, stage_id: str) -> str:
        """Return the id of one of its stages in the outermost pipeline."""
        return stage_id if self.within is None else f"{self.within}/{stage_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """How a stage asks what answers in it."""

    written: PipelineStage
    asking: AskingDefaults
    """How the run asks; `response_format` is already that of the pipeline around."""
    id: str
    around: _Around
    inputs: tuple[str, ...]
    system_prompt: str | None
    instructions: str | None
    languages: Languages | None
    response_format: dict[str, JsonValue] | None
    own: Decoding
    """Sampling parameters that it and the pipelines around it state, which replace the run's."""
    sees_images: bool


class _Pinning:
    def __init__(self, references: References, task: TaskEntry | None, path: Path) -> None:
        self._references = references
        self._task = task
        self._path = path
        self._count = 0
        self.own: dict[Key, Decoding] = {}

    def stages(self, entry: PipelineFields, asking: AskingDefaults, around: _Around) -> list[StageSpec] | None:
        """Pin the stages of a pipeline, each after those of the pipelines in it; or report their problems."""
        if len(around.names) > MAX_DEPTH or around.names[-1] in around.names[:-1]:
            message = f"the pipelines {' → '.join(around.names)} are nested more than {MAX_DEPTH} deep, or in a circle."
            self._references.say(self._path, message, "Write the inner stages out.")
            return None
        pinned: list[StageSpec] = []
        is_whole = True
        for no, stage in enumerate(entry.stages):
            is_last, known = no == len(entry.stages) - 1, len(self._references.problems)
            made = self._stage(self._how(stage, asking, around, is_first=no == 0, is_last=is_last))
            self._name_stage(around.id_of(stage.id), known)
            is_whole = is_whole and made is not None
            pinned += made or []
        return pinned if is_whole else None

    def _name_stage(self, stage_id: str, known: int) -> None:
        """Let the problems after the known ones name their stage, unless they name one of a pipeline in it."""
        problems = self._references.problems
        problems[known:] = [
            problem if problem.message.startswith(_STAGE) else _of_stage(problem, stage_id)
            for problem in problems[known:]
        ]

    def _how(
        self, stage: PipelineStage, asking: AskingDefaults, around: _Around, *, is_first: bool, is_last: bool
    ) -> _Stage:
        instructions = stage.instructions
        languages = self._languages(stage)
        if stage.type == "translate" and instructions is None and languages is None:
            instructions = TRANSLATE.format(source=stage.source_language, target=stage.target_language)
        system = stage.system_prompt
        if is_first:
            instructions = "\n\n".join(filter(None, (instructions, around.instructions))) or None
            system = system if system is not None else around.system_prompt
        if languages is not None and (instructions is not None or system is not None):
            message = "its model would translate instructions and system_prompt too."
            self._references.say(self._path, message, "Leave them out.")
        formats = asking.response_format if is_last and stage.response_format is None else None
        return _Stage(
            written=stage,
            asking=asking,
            id=around.id_of(stage.id),
            around=around,
            inputs=tuple(map(around.id_of, stage.inputs)) or around.inputs,
            system_prompt=system,
            instructions=instructions,
            languages=languages,
            response_format=pinned_format(stage.response_format) if stage.response_format is not None else formats,
            own=merge_decoding(around.own, stage.generation),
            sees_images=stage.images if stage.images is not None else is_first and around.sees_images,
        )

    def _stage(self, how: _Stage) -> list[StageSpec] | None:
        """Pin a stage after those of the pipelines in it, or report its problems."""
        before: list[StageSpec] = []
        members: list[MemberSpec] = []
        inner: list[InnerMember] = []
        dropped: list[DroppedMember] = []
        stage, is_whole = how.written, True
        for choice, name in zip(stage.members, _named_apart(stage.members), strict=True):
            if (why := self._missing(choice)) is not None:
                dropped.append(DroppedMember(name=choice.name, reason=why))
                continue
            if choice.pipeline is None:
                member = self._member(choice, name, how, role="member")
                members += [] if member is None else [member]
                is_whole = is_whole and member is not None
                continue
            stages = self._inner(choice.pipeline, name, how)
            is_whole = is_whole and stages is not None
            if stages is not None:
                before += stages
                given = InnerMember(
                    name=name,
                    stage=stages[-1].id,
                    position=len(members) + len(inner),
                    weight=choice.weight,
                    is_optional=choice.optional,
                )
                inner.append(given)
        aggregation = None
        if stage.aggregation is not None:
            aggregation = self._aggregation(stage.aggregation, how)
            is_whole = is_whole and aggregation is not None
        if is_whole and not members and not inner:
            message = f"every member is optional and missing: {dropped[0].reason}."
            self._references.say(self._path, message, "Fetch one of its models.")
            is_whole = False
        if not is_whole:
            return None
        own = StageSpec(
            id=how.id,
            within=how.around.within,
            inputs=how.inputs,
            output_mode=stage.output_mode,
            system_prompt=how.system_prompt,
            instructions=how.instructions,
            languages=how.languages,
            response_format=how.response_format,
            members=tuple(members),
            inner=tuple(inner),
            aggregation=aggregation,
            dropped=tuple(dropped),
        )
        return [*before, own]

    def _inner(self, pipeline: str, name: str, how: _Stage) -> list[StageSpec] | None:
        entry = self._references.find(self._references.catalogue.pipelines, "pipelines", pipeline, self._path)
        if entry is None:
            return None
        around = _Around(
            names=(*how.around.names, pipeline),
            within=f"{how.id}/{name}",
            inputs=how.inputs,
            system_prompt=how.system_prompt,
            instructions=how.instructions,
            sees_images=how.sees_images,
            own=how.own,
        )
        asking = replace(how.asking, response_format=how.response_format)
        return self.stages(entry, asking, around)

    def _languages(self, stage: PipelineStage) -> Languages | None:
        """Return what the requests of a stage name; None where its model is not told languages by its template."""
        model = self._references.catalogue.models.get(stage.members[0].model or "")
        if stage.type != "translate" or model is None or model.request_style != TRANSLATES:
            return None
        languages = Languages(source=stage.source_language or "", target=stage.target_language or "")
        for name in (languages.source, languages.target):
            if not is_language_code(name):
                message = f"{name!r} is no code of a language, which {stage.members[0].name} takes."
                self._references.say(self._path, message, "Write codes such as de, or de-AT.")
        return languages

    def _missing(self, choice: MemberChoice) -> str | None:
        """Return why the files of an optional model cannot be used now; None if they may be, or it is required."""
        entry = self._references.catalogue.models.get(choice.model or "")
        if not choice.optional or entry is None:
            return None
        if entry.is_unpinned:
            return "its files are not fetched or made yet"
        folder = self._references.catalogue.folder_of("models", choice.name)
        gone = [] if entry.is_brought or entry.package is not None else missing_files(folder, entry)
        return f"there is no file {', '.join(gone)}" if gone else None

    def _member(
        self, choice: MemberChoice, name: str, how: _Stage, *, role: Role, **changes: bool
    ) -> MemberSpec | None:
        self._count += 1
        if self._count > MAX_ASKED:
            if self._count == MAX_ASKED + 1:
                message = f"it asks more than {MAX_ASKED} models, those of the pipelines in it counted."
                self._references.say(self._path, message, "Leave some out.")
            return None
        target = resolve_target(
            self._references, _target_of(choice), self._task, self._path, is_told_languages=how.languages is not None
        )
        if target is None:
            return None
        own = self.own[how.id, role, name] = merge_decoding(how.own, choice.generation)
        return MemberSpec(
            name=name,
            target=target,
            decoding=merge_decoding(how.asking.decoding, own),
            weight=choice.weight,
            is_optional=choice.optional,
            sees_images=how.sees_images,
            smaller=smaller_models(self._references, target)
            if how.asking.allow_lossy and isinstance(target, ModelTarget)
            else (),
        ).model_copy(update=changes)

    def _aggregation(self, choice: AggregationChoice, how: _Stage) -> AggregationSpec | None:
        plugin = self._references.plugin("aggregations", choice.type, None, self._path)
        merger = how.written.merger
        pinned = None
        if merger is not None and merger.pipeline is not None:
            message = (
                f"the pipeline {merger.pipeline!r} cannot merge answers, since only a model obeys the merge's prompt."
            )
            self._references.say(self._path, message, "Name a model.")
            return None
        if merger is not None:
            models = self._references.catalogue.models
            is_blind = merger.model is not None and merger.model in models and is_text_only(models[merger.model])
            pinned = self._member(merger, merger.name, how, role="merge", sees_images=how.sees_images and not is_blind)
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


def _of_stage(problem: Problem, stage_id: str) -> Problem:
    return replace(problem, message=f"{_STAGE}{stage_id}: {problem.message}")


def _target_of(choice: MemberChoice) -> ModelChoice | EndpointChoice:
    if choice.endpoint is not None:
        name = choice.model_name or ""
        return EndpointChoice(endpoint=choice.endpoint, model_name=name, engine_params=choice.engine_params)
    return ModelChoice(model=choice.name, backend=choice.backend, engine_params=choice.engine_params)


def _named_apart(choices: Sequence[MemberChoice]) -> list[str]:
    """Return a name of its own for each member: those of one name are numbered."""
    total, seen = Counter(choice.name for choice in choices), Counter[str]()
    names: list[str] = []
    for choice in choices:
        seen[choice.name] += 1
        names.append(f"{choice.name} #{seen[choice.name]}" if total[choice.name] > 1 else choice.name)
    return names
