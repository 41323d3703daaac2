"""Entries of `registries/pipelines/`: stages that ask one model or several, and make one answer of theirs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import ConfigDict, Discriminator, Field, JsonValue, PlainSerializer, Tag, model_validator

from vlmhyperbench.domain.base import Refused
from vlmhyperbench.domain.execution import ExecutionMode
from vlmhyperbench.domain.specs import Decoding
from vlmhyperbench.registry.choices import ResponseFormat, name_tag
from vlmhyperbench.registry.values import Params, PluginName, Slug, Strict

MAX_STAGES: Final = 32
MAX_MEMBERS: Final = 16
MAX_DEPTH: Final = 3
"""Levels of pipelines in pipelines, the outer one included."""

Text = Annotated[str, Field(max_length=20_000)]


def _stated(decoding: Decoding) -> dict[str, JsonValue]:
    """Write only what was stated: every other parameter is the task's, and not its default."""
    return decoding.model_dump(mode="json", exclude_unset=True)


StatedDecoding = Annotated[Decoding, PlainSerializer(_stated)]


class MemberChoice(Strict):
    """A model, an endpoint or another pipeline that answers in a stage."""

    model: Slug | None = None
    endpoint: Annotated[str, Field(max_length=2000)] | None = None
    """URL of an OpenAI-compatible endpoint that runs elsewhere."""
    model_name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Name of the model at the endpoint."""
    pipeline: Slug | None = None
    backend: Slug | None = None
    engine_params: Params = Field(default_factory=dict)
    generation: StatedDecoding | None = None
    """Sampling parameters that replace those of the stage, key by key."""
    weight: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    optional: bool = False
    """Whether the stage goes on without it where it cannot be used; a warning says so."""

    @property
    def name(self) -> str:
        """The name in errors, results and traces."""
        return self.model or self.pipeline or self.model_name or ""

    @model_validator(mode="after")
    def _is_one_thing(self) -> MemberChoice:
        if sum(named is not None for named in (self.model, self.endpoint, self.pipeline)) != 1:
            message = "a member is a model, an endpoint or a pipeline"
            raise Refused(message, cure="Write one of model, endpoint and pipeline.")
        if (self.endpoint is None) != (self.model_name is None):
            raise Refused("an endpoint has a model_name, and others have none", cure="Add it, or leave it out.")
        if self.endpoint is not None and self.backend is not None:
            raise Refused("an endpoint has no backend", cure="Leave backend out.")
        if self.pipeline is not None and (self.backend is not None or self.engine_params or self.generation):
            message = "a pipeline states its own backends, engine_params and generation"
            raise Refused(message, cure="Leave them out, or write them in that pipeline.")
        return self


MemberRef = Annotated[
    Annotated[Slug, Tag("a name")] | Annotated[MemberChoice, Tag("written out")], Discriminator(name_tag)
]
InputRef = Annotated[
    Annotated[Slug, Tag("a name")] | Annotated[tuple[Slug, ...], Field(min_length=1), Tag("written out")],
    Discriminator(name_tag),
]


class AggregationChoice(Strict):
    """How the members' answers become one: an aggregation, the model that merges if there is one, and its params."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue]

    type: PluginName
    """Registered name or dotted path."""
    model: MemberRef | None = None
    """Model that merges: of `synthesis`, and of a `template` whose result is a question."""

    @property
    def params(self) -> Mapping[str, JsonValue]:
        """The params of the aggregation: all other keys."""
        return self.__pydantic_extra__


KEYS: Final[Mapping[str, frozenset[str]]] = {
    "single": frozenset({"model"}),
    "multi": frozenset({"models", "aggregation"}),
    "translate": frozenset({"model", "source_language", "target_language"}),
}
"""Type → keys that a stage of it needs, and others have not."""


def misfits(kind: str, written: Iterable[str], *, members: int, optional: int) -> Iterator[tuple[str, str]]:
    """Yield what the keys and members of a stage lack or have too many of for its type: message and cure."""
    needed = KEYS[kind]
    present = {key for keys in KEYS.values() for key in keys if key in set(written)}
    if missing := sorted(needed - present):
        yield f"a {kind} stage needs {', '.join(missing)}", "Add them, or correct type."
    if others := sorted(present - needed):
        yield f"a {kind} stage has no {', '.join(others)}", "Leave them out, or correct type."
    if kind == "multi" and "models" in present and members < 2:
        yield "a multi stage needs at least two models", "Add another one, or write type: single."
    if members and optional == members:
        yield "all models of the stage are optional", "Let one of them be required."


class PipelineStage(Strict):
    """A stage of a pipeline."""

    id: Slug
    type: Literal["single", "multi", "translate"]
    input_from: InputRef | None = None
    """Earlier stage or stages whose answers it gets, joined with a blank line; only the first stage has none."""
    output_mode: Literal["answer_only", "question_and_answer"] = "answer_only"
    model: MemberRef | None = None
    models: Annotated[tuple[MemberRef, ...], Field(max_length=MAX_MEMBERS)] = ()
    aggregation: AggregationChoice | None = None
    source_language: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    target_language: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    generation: StatedDecoding | None = None
    """Sampling parameters that replace those of the task, key by key."""
    system_prompt: Text | None = None
    instructions: Text | None = None
    response_format: ResponseFormat | None = None
    images: bool | None = None
    """Whether it gets the images of the sample; by default the first stage does, where all of its models can see."""

    @model_validator(mode="after")
    def _has_the_keys_of_its_type(self) -> PipelineStage:
        optional = sum(member.optional for member in self.members) if self.models else 0
        written = self.model_fields_set
        for message, cure in misfits(self.type, written, members=len(self.models), optional=optional):
            raise Refused(message, cure=cure)
        return self

    @property
    def members(self) -> tuple[MemberChoice, ...]:
        """The models and pipelines that answer, in their order."""
        named = self.models if self.model is None else (self.model,)
        return tuple(map(written_out, named))

    @property
    def merger(self) -> MemberChoice | None:
        """The model that merges the members' answers."""
        model = self.aggregation.model if self.aggregation is not None else None
        return written_out(model) if model is not None else None

    @property
    def inputs(self) -> tuple[str, ...]:
        """Stages whose answers it gets."""
        return (self.input_from,) if isinstance(self.input_from, str) else self.input_from or ()


class PipelineFields(Strict):
    """What a pipeline is, beside the fields of every entry."""

    execution_mode: ExecutionMode = "auto"
    """`persistent` keeps its models loaded, `sequential` loads one after the other; `auto` decides by the estimates."""
    stages: Annotated[tuple[PipelineStage, ...], Field(min_length=1, max_length=MAX_STAGES)]
    requires: Annotated[tuple[Slug, ...], Field(max_length=1000)] = ()
    """Models that must be usable before it starts, beside those that it asks."""


def written_out(member: MemberRef) -> MemberChoice:
    """Return a member that is named, or written out, as a choice."""
    return MemberChoice(model=member) if isinstance(member, str) else member


def models_of(pipeline: PipelineFields) -> Iterator[tuple[MemberChoice, str]]:
    """Yield every model and pipeline that it asks, with the stage; those that merge too."""
    for stage in pipeline.stages:
        for member in (*stage.members, *([stage.merger] if stage.merger is not None else ())):
            yield member, stage.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the files of models are like here."""

    unusable: Mapping[str, str]
    """Model that cannot be used → why."""
    doubtful: Mapping[str, str]
    """Model that may have to be loaded smaller than its entry says, or not at all → why."""


class Readiness(NamedTuple):
    """Whether a pipeline can start."""

    blocked: list[str]
    """Every reason for which it cannot."""
    warnings: list[str]
    """Optional models that it goes on without."""
    doubts: list[str]
    """Models that may have to be loaded smaller, or may not fit at all, optional or not."""


def blocked_by(pipeline: PipelineFields, found: Found, pipelines: Mapping[str, PipelineFields]) -> Readiness:
    """Return why it cannot start, what it goes on without, and what may not fit.

    Args:
        pipeline: The pipeline.
        found: What its models are like here.
        pipelines: The registered pipelines, in which those that it asks are looked up.
    """
    reasons = [f"it requires {name}: {found.unusable[name]}" for name in pipeline.requires if name in found.unusable]
    ready = Readiness(blocked=reasons, warnings=[], doubts=[])
    for member, stage in models_of(pipeline):
        inner, model = pipelines.get(member.pipeline or ""), member.model or ""
        inside = Readiness([], [], []) if inner is None else blocked_by(inner, found, pipelines)
        why = [*inside.blocked, *([found.unusable[model]] if model in found.unusable else [])]
        doubts = [*inside.doubts, *([found.doubtful[model]] if model in found.doubtful else [])]
        for told, texts in (
            (ready.warnings if member.optional else ready.blocked, why),
            (ready.warnings, inside.warnings),
            (ready.doubts, doubts),
        ):
            told.extend(f"{stage} asks {member.name}: {text}" for text in texts)
    return ready
