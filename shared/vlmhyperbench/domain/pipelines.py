"""A pipeline as a target: stages that ask models, and aggregations that make one answer of theirs. Pure.

Each asked model of a stage is a step of the run (`domain.graph`), with a phase of its own; the last stage's answer is
the run's answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, JsonValue

from vlmhyperbench.domain.base import Name, Spec
from vlmhyperbench.domain.decoding import Decoding
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.targets import EndpointTarget, ModelTarget, PluginRef

STAGE: Final = "stage"
"""Parameter of the jobs and phases of an asked model: id of its stage."""
MEMBER: Final = "member"
"""Parameter of the same: name of the model within its stage."""
ROLE: Final = "role"
"""Parameter of the same: what it does there, a `Role`."""
BACKEND: Final = "pipeline"

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

    id: Name
    inputs: tuple[Name, ...] = ()
    """Earlier stages whose answers it gets; none: it gets the prompt of the task."""
    output_mode: Literal["answer_only", "question_and_answer"] = "answer_only"
    """What later stages get of it."""
    system_prompt: str | None = None
    instructions: str | None = None
    """Text before what it gets."""
    response_format: dict[str, JsonValue] | None = None
    members: Annotated[tuple[MemberSpec, ...], Field(min_length=1)]
    aggregation: AggregationSpec | None = None
    """None: it has one member, whose answer is that of the stage."""
    dropped: tuple[DroppedMember, ...] = Field(default=(), exclude_if=lambda dropped: not dropped)
    """Optional models that were left out; not written where there are none, so that digests did not change."""


class PipelineTarget(Spec):
    """A pipeline that answers like a model."""

    kind: Literal["pipeline"] = "pipeline"
    pipeline: Name
    version: str
    execution_mode: Literal["persistent", "sequential", "auto"] = Field(
        default="auto", exclude_if=lambda mode: mode == "auto"
    )
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


def can_do_without(pipeline: PipelineTarget, digest: str) -> bool:
    """Whether every place where the model with this digest is asked can do without it."""
    asked = [each for each in asked_models(pipeline) if digest_of(each.model.target) == digest]
    return all(each.role == "member" and each.model.is_optional for each in asked)


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
    wanted = {asked.stage.id} if asked.role != "member" else set[str]()
    reached = list(asked.stage.inputs)
    while reached:
        stage_id = reached.pop()
        if stage_id not in wanted:
            wanted.add(stage_id)
            reached += pipeline.stage(stage_id).inputs
    if wanted:
        wanted.add(pipeline.stages[0].id)  # knows the question
    return [
        other
        for other in asked_models(pipeline)
        if other.stage.id in wanted
        and (other.stage.id != asked.stage.id or ROLES.index(other.role) < ROLES.index(asked.role))
    ]
