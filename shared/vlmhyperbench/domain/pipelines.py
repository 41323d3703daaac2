"""A pipeline as a target: stages that ask models, and aggregations that make one answer of theirs. Pure.

Each asked model of a stage is a step of the run (`domain.graph`), with a phase of its own; the last stage's answer is
the run's answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, JsonValue, model_validator

from vlmhyperbench.domain.base import Name, Refused, Spec
from vlmhyperbench.domain.decoding import Decoding
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.execution import ExecutionMode
from vlmhyperbench.domain.request_styles import Languages
from vlmhyperbench.domain.targets import EndpointTarget, ModelTarget, PluginRef

STAGE: Final = "stage"
"""Parameter of the jobs and phases of an asked model: id of its stage."""
MEMBER: Final = "member"
"""Parameter of the same: name of the model within its stage."""
ROLE: Final = "role"
"""Parameter of the same: what it does there, a `Role`."""
BACKEND: Final = "pipeline"

StageId: TypeAlias = Annotated[str, Field(min_length=1, max_length=1000)]
"""Id of a stage; in a pipeline within a stage, after that stage and the pipeline's name: `read/readers-vote/first`."""
Role: TypeAlias = Literal["member", "merge", "repair"]
"""`member` answers; `merge` makes one answer of those; `repair` corrects an invalid answer of `merge`."""
Key: TypeAlias = tuple[str, Role, str]
"""What identifies an asked model in its pipeline: stage, role, name."""
ROLES: Final[tuple[Role, ...]] = ("member", "merge", "repair")
"""In the order in which they are asked."""


class MemberSpec(Spec):
    """A model that a stage asks."""

    name: Name
    """Unique within its stage."""
    target: Annotated[ModelTarget | EndpointTarget, Field(discriminator="kind")]
    decoding: Decoding = Decoding()
    weight: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    is_optional: bool = False
    """Whether the pipeline answers without it where it cannot be asked."""
    sees_images: bool = True
    """Whether its requests have the images of the sample."""
    smaller: tuple[ModelTarget, ...] = Field(default=(), exclude_if=lambda targets: not targets)
    """Smaller quantisations of the model that may stand for it, the largest first; only by `limits.allow_lossy`."""

    @property
    def is_blind(self) -> bool:
        """Whether its requests would have images, which it is known not to read."""
        return self.sees_images and isinstance(self.target, ModelTarget) and self.target.is_text_only


class InnerMember(Spec):
    """A pipeline that answers in a stage of another one; its stages stand before that stage."""

    name: Name
    """Unique within the stage."""
    stage: StageId
    """Its last stage, whose answer is its own."""
    position: int
    """Number of members that answer before it in the stage."""
    weight: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    is_optional: bool = False
    """Whether the stage answers without it where one of its models that it needs cannot be asked."""


class AggregationSpec(Spec):
    """How the answers of a stage's members become one."""

    class_path: Name
    """Entry-point name or dotted path."""
    package: PluginRef | None = None
    params: dict[str, JsonValue] = Field(default_factory=dict)
    is_repaired: bool = False
    """Whether a merged answer that is invalid is asked for once more."""
    merger: MemberSpec | None = None
    """The model that merges the answers; None: the aggregation does it alone."""


class DroppedMember(Spec):
    """An optional model that could not be used when the run was submitted, and why."""

    name: Name
    reason: str


class StageSpec(Spec):
    """A stage: the models that it asks about the answers of earlier stages, or the first one about the sample."""

    id: StageId
    within: StageId | None = Field(default=None, exclude_if=lambda within: within is None)
    """The pipeline within this one that it is a stage of: the stage where that answers, and its name there."""
    inputs: tuple[StageId, ...] = ()
    """Earlier stages whose answers it gets; none: it gets the prompt of the task."""
    output_mode: Literal["answer_only", "question_and_answer"] = "answer_only"
    """What later stages get of it."""
    system_prompt: str | None = None
    instructions: str | None = None
    """Text before what it gets."""
    languages: Languages | None = Field(default=None, exclude_if=lambda languages: languages is None)
    """What its requests name, where its model is told the languages by its template; left out otherwise."""
    response_format: dict[str, JsonValue] | None = None
    members: tuple[MemberSpec, ...] = ()
    """The models that answer in it."""
    inner: tuple[InnerMember, ...] = Field(default=(), exclude_if=lambda inner: not inner)
    """The pipelines that answer in it; left out where there are none, so that digests did not change."""
    aggregation: AggregationSpec | None = None
    """None: it has one member, whose answer is that of the stage."""
    dropped: tuple[DroppedMember, ...] = Field(default=(), exclude_if=lambda dropped: not dropped)
    """Optional models that were left out; not written where there are none, so that digests did not change."""

    @model_validator(mode="after")
    def _has_a_member(self) -> StageSpec:
        if not self.members and not self.inner:
            raise Refused("nothing answers in the stage", cure="Give it a member.")
        return self

    @property
    def answering(self) -> tuple[MemberSpec | InnerMember, ...]:
        """The models and pipelines that answer in it, in their order."""
        members: list[MemberSpec | InnerMember] = list(self.members)
        for inner in self.inner:
            members.insert(inner.position, inner)
        return tuple(members)

    def path_of(self, inner: InnerMember) -> str:
        """Return what the stages of a pipeline that answers in it are within."""
        return f"{self.id}/{inner.name}"


class PipelineTarget(Spec):
    """A pipeline that answers like a model."""

    kind: Literal["pipeline"] = "pipeline"
    pipeline: Name
    version: str
    execution_mode: ExecutionMode = Field(default="auto", exclude_if=lambda mode: mode == "auto")
    """Whether its models stay loaded together; left out where the estimates decide, so that digests did not change."""
    stages: Annotated[tuple[StageSpec, ...], Field(min_length=1)]
    """In their order; the answer of the last one is the pipeline's."""

    @property
    def served_name(self) -> str:
        """The pipeline's name in tables."""
        return self.pipeline

    @property
    def secret_names(self) -> list[str]:
        """Names of the secrets that its models need."""
        return list(dict.fromkeys(name for asked in asked_models(self) for name in asked.model.target.secret_names))

    @property
    def backend_class(self) -> str:
        """A constant, since its models have backends of their own."""
        return BACKEND

    @property
    def engine_params(self) -> dict[str, JsonValue]:
        """Empty, since its models have their own."""
        return {}

    def stage(self, stage_id: str) -> StageSpec:
        """Return a stage.

        Raises:
            LookupError: there is none with this id.
        """
        found = next((stage for stage in self.stages if stage.id == stage_id), None)
        if found is None:
            raise LookupError(f"The pipeline {self.pipeline} has no stage {stage_id}.")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedModel:
    """A model that a pipeline asks in one role: what becomes one step of the run."""

    stage: StageSpec
    role: Role
    model: MemberSpec

    @property
    def key(self) -> Key:
        """What identifies it in its pipeline."""
        return self.stage.id, self.role, self.model.name

    @property
    def label(self) -> str:
        """Name in plans, warnings and errors: `stage/name`, with its role unless it is a member."""
        who = f"{self.stage.id}/{self.model.name}"
        return who if self.role == "member" else f"{who} ({self.role})"

    @property
    def params(self) -> dict[str, JsonValue]:
        """Parameters of its jobs and of its phase."""
        return {STAGE: self.stage.id, ROLE: self.role, MEMBER: self.model.name}


def compared_stage(pipeline: PipelineTarget) -> StageSpec:
    """Return the stage whose members are compared with its answer: the last one in which several answer, if any."""
    several = [stage for stage in pipeline.stages if len(stage.answering) > 1]
    return (several or pipeline.stages)[-1]


def asked_models(pipeline: PipelineTarget) -> Iterator[AskedModel]:
    """Yield every model that a pipeline asks, in the order of its stages; a model that merges is asked twice."""
    for stage in pipeline.stages:
        for member in stage.members:
            yield AskedModel(stage=stage, role="member", model=member)
        aggregation = stage.aggregation
        if aggregation is not None and aggregation.merger is not None:
            yield AskedModel(stage=stage, role="merge", model=aggregation.merger)
            if aggregation.is_repaired:
                yield AskedModel(stage=stage, role="repair", model=aggregation.merger)


def refusal_of_images(asked: AskedModel) -> tuple[str, str] | None:
    """Return why a model cannot be asked about images, and the cure; None if it can, as far as is known."""
    if not asked.model.is_blind:
        return None
    message = f"{asked.model.name} has no image projector, so that it cannot see images."
    return message, f"Choose a model with mmproj, or write images: false in the stage {asked.stage.id}."


def can_do_without(pipeline: PipelineTarget, digest: str) -> bool:
    """Whether every place where the model with this digest is asked can do without it."""
    asked = [each for each in asked_models(pipeline) if digest_of(each.model.target) == digest]
    return all(is_dispensable(pipeline, each) for each in asked)


def asked_model(pipeline: PipelineTarget, params: Mapping[str, object]) -> AskedModel:
    """Return the model that a job or a phase with these parameters asks.

    Raises:
        LookupError: the pipeline asks no such model.
    """
    wanted = (params.get(STAGE), params.get(ROLE), params.get(MEMBER))
    found = next((asked for asked in asked_models(pipeline) if asked.key == wanted), None)
    if found is None:
        raise LookupError(f"The pipeline {pipeline.pipeline} asks no model {wanted[2]} in its stage {wanted[0]}.")
    return found


def needed_by(pipeline: PipelineTarget, asked: AskedModel) -> list[AskedModel]:
    """Return the models whose answers a request to this one is made of, those of earlier stages included."""
    is_member = asked.role == "member"
    wanted = needed_stages(pipeline, asked.stage, with_inner=not is_member)
    if not is_member:
        wanted.add(asked.stage.id)
    if wanted:
        wanted.add(pipeline.stages[0].id)  # knows the question
    return [
        other
        for other in asked_models(pipeline)
        if other.stage.id in wanted
        and (other.stage.id != asked.stage.id or ROLES.index(other.role) < ROLES.index(asked.role))
    ]


def questioned(pipeline: PipelineTarget) -> list[ModelTarget | EndpointTarget]:
    """Return the targets that are asked the question of a sample, and so get the examples of its prompt."""
    return [asked.model.target for asked in asked_models(pipeline) if not needed_by(pipeline, asked)]


def needed_stages(pipeline: PipelineTarget, stage: StageSpec, *, with_inner: bool) -> set[str]:
    """Return the stages whose answers a stage is made of; `with_inner`, those of the pipelines in it too."""
    wanted = set[str]()
    reached = [*stage.inputs, *(inner.stage for inner in stage.inner if with_inner)]
    while reached:
        stage_id = reached.pop()
        if stage_id not in wanted:
            wanted.add(stage_id)
            needed = pipeline.stage(stage_id)
            reached += [*needed.inputs, *(inner.stage for inner in needed.inner)]
    return wanted


def is_dispensable(pipeline: PipelineTarget, asked: AskedModel) -> bool:
    """Return whether the pipeline answers without a model: it is optional, or a pipeline around it is."""
    return (asked.model.is_optional and asked.role == "member") or any(
        inner.is_optional for inner in _around(pipeline, asked.stage)
    )


def models_within(pipeline: PipelineTarget, path: str) -> Iterator[AskedModel]:
    """Yield the models that a pipeline within this one cannot do without."""
    for asked in asked_models(pipeline):
        inside = asked.stage.within or ""
        if (inside == path or inside.startswith(f"{path}/")) and not (
            asked.model.is_optional and asked.role == "member"
        ):
            between = _around(pipeline, asked.stage, until=path)
            if not any(inner.is_optional for inner in between):
                yield asked


def _around(pipeline: PipelineTarget, stage: StageSpec, *, until: str | None = None) -> Iterator[InnerMember]:
    """Yield the pipelines of which a stage is a part, the innermost first, up to the one `until`, which is left out."""
    within = stage.within
    while within is not None and within != until:
        outer, inner = next(
            (outer, inner) for outer in pipeline.stages for inner in outer.inner if outer.path_of(inner) == within
        )
        yield inner
        within = outer.within
