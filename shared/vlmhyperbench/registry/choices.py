"""Choices in entries: the name of another entry, or an inline definition with its own values."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from vlmhyperbench.domain.base import Refused
from vlmhyperbench.domain.environments import ApptainerFields, DockerFields, RentedFields, VirtualenvFields
from vlmhyperbench.domain.filters import MAX_FILTERS, read_filter
from vlmhyperbench.domain.presets import Preset
from vlmhyperbench.domain.response_formats import check_response_format
from vlmhyperbench.domain.scenarios import MAX_REQUESTS, ArrivalSpec, ScenarioKind, Slo
from vlmhyperbench.domain.selection import PreprocessStep, SamplingSpec
from vlmhyperbench.domain.specs import Decoding, Limits
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.registry.prices import PricesChoice
from vlmhyperbench.registry.values import (
    ExtractorName,
    MetricRef,
    Params,
    PluginName,
    SecretName,
    Slug,
    Strict,
    without_repeats,
)


def name_tag(value: object) -> str:
    """Distinguish a name from an inline definition, for a union's errors."""
    return "a name" if isinstance(value, str) else "written out"


class ExtractorChoice(Strict):
    """An extractor with params."""

    name: ExtractorName
    params: Params = Field(default_factory=dict)


ExtractorRef = Annotated[
    Annotated[ExtractorName, Tag("a name")] | Annotated[ExtractorChoice, Tag("written out")], Discriminator(name_tag)
]
MetricRefs = Annotated[tuple[MetricRef, ...], Field(min_length=1, max_length=100)]
ReportNames = Annotated[tuple[Slug, ...], Field(max_length=20)]
Columns = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=200)], ...], Field(max_length=20)]
"""Names of metadata fields."""
Labels = Annotated[tuple[Annotated[str, Field(max_length=200)], ...], Field(max_length=1000)]


def _is_filter(text: str) -> str:
    try:
        condition = read_filter(text)
        if condition.operator in ("<", "<=", ">", ">="):
            _ = condition.number
    except InvalidInput as error:
        raise Refused(error.message, cure=error.cure) from error
    return text


Filters = Annotated[tuple[Annotated[str, AfterValidator(_is_filter)], ...], Field(max_length=MAX_FILTERS)]
"""Filters on metadata, such as `doc_class=receipt,invoice` and `pages<=3`."""


def _named_format(value: object) -> object:
    return {"type": value} if isinstance(value, str) else value


ResponseFormat = Annotated[
    Params,
    BeforeValidator(_named_format, json_schema_input_type=Params | Literal["text", "json_object", "json_schema"]),
    AfterValidator(check_response_format),
]
"""A response format of the chat protocol, or the name of one that needs no more: `json_schema` is each sample's own."""
Extractors = Annotated[tuple[ExtractorRef, ...], Field(min_length=1, max_length=10)]


class VirtualenvChoice(VirtualenvFields):
    """A virtual environment, which may hold packages of others."""

    packages: tuple[Slug, ...] = ()
    """Names of entries of `packages`."""

    @model_validator(mode="after")
    def _is_not_empty(self) -> VirtualenvChoice:
        if not self.requirements and not self.packages:
            raise Refused("the environment is empty", cure="Write requirements, packages or both.")
        return self


class EnvironmentChoice(Strict):
    """Where an engine runs, if not in the platform's own interpreter. Its one key is the kind."""

    virtualenv: VirtualenvChoice | None = None
    docker: DockerFields | None = None
    apptainer: ApptainerFields | None = None
    remote: RentedFields | None = None

    @model_validator(mode="after")
    def _has_one_kind(self) -> EnvironmentChoice:
        if sum(fields is not None for fields in (self.virtualenv, self.docker, self.apptainer, self.remote)) != 1:
            message = "an environment is of one kind"
            raise Refused(message, cure="Write one of virtualenv, docker, apptainer and remote, with its keys.")
        return self

    @property
    def packages(self) -> tuple[str, ...]:
        """Names of the packages of others that it holds."""
        return self.virtualenv.packages if self.virtualenv is not None else ()


class MetricEnvironmentChoice(Strict):
    """Where a metric runs, if not in the platform's own interpreter."""

    virtualenv: VirtualenvChoice


class ModelChoice(Strict):
    """A registered model."""

    model: Slug
    backend: Slug | None = None
    engine_params: Params = Field(default_factory=dict)
    prices: PricesChoice | None = None
    """Prices that replace those of the model and the backend."""


class EndpointChoice(Strict):
    """An OpenAI-compatible endpoint that runs elsewhere."""

    endpoint: Annotated[str, Field(max_length=2000)]
    model_name: Annotated[str, Field(min_length=1, max_length=200)]
    backend_class: PluginName = "openai"
    engine_params: Params = Field(default_factory=dict)
    prices: PricesChoice | None = None
    """Prices; by default the backend's, else those that genai-prices lists for the provider of the URL."""


class DatasetChoice(Strict):
    """A registered dataset with some values overridden."""

    name: Slug
    split: str | None = None
    params: Params = Field(default_factory=dict)
    seed: int | None = None
    limit: Annotated[int, Field(ge=1)] | None = None
    doc_classes: Labels | None = None
    question_types: Labels | None = None
    where: Filters | None = None
    sampling: SamplingSpec | None = None
    preprocess: tuple[PreprocessStep, ...] | None = None


class ScenarioChoice(Strict):
    """A registered scenario with some values overridden; or, with `kind`, a new scenario."""

    name: Slug
    kind: ScenarioKind | None = None
    in_flight: Annotated[int, Field(ge=1, le=4096)] | None = None
    warmup_requests: Annotated[int, Field(ge=0, le=10_000)] | None = None
    requests: Annotated[int, Field(ge=1, le=MAX_REQUESTS)] | None = None
    duration_s: Annotated[float, Field(gt=0, le=86_400)] | None = None
    arrivals: ArrivalSpec | None = None
    baseline_requests: Annotated[int, Field(ge=0, le=10_000)] | None = None
    turns: Annotated[int, Field(ge=1, le=100)] | None = None
    think_s: Annotated[float, Field(ge=0, le=3600)] | None = None
    preset: Preset | None = None
    seed: int | None = None
    slo: Slo | None = None


class PipelineChoice(Strict):
    """A registered pipeline."""

    pipeline: Slug


def _target_tag(value: object) -> str:
    names = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    if "pipeline" in names:
        return "a pipeline"
    return "an endpoint" if "endpoint" in names or "model_name" in names else "a model"


TargetChoice = Annotated[
    Annotated[ModelChoice, Tag("a model")] | Annotated[EndpointChoice, Tag("an endpoint")], Discriminator(_target_tag)
]
RunTargetChoice = Annotated[
    Annotated[ModelChoice, Tag("a model")]
    | Annotated[EndpointChoice, Tag("an endpoint")]
    | Annotated[PipelineChoice, Tag("a pipeline")],
    Discriminator(_target_tag),
]
DatasetRef = Annotated[
    Annotated[Slug, Tag("a name")] | Annotated[DatasetChoice, Tag("written out")], Discriminator(name_tag)
]
ScenarioRef = Annotated[
    Annotated[Slug, Tag("a name")] | Annotated[ScenarioChoice, Tag("written out")], Discriminator(name_tag)
]


class StopChoice(Strict):
    """A statistical stop rule: no more requests are sent once the comparison with a baseline is certain."""

    rule: Literal["better", "worse", "not_worse", "equivalent"]
    margin: Annotated[float, Field(ge=0)] = 0.0
    """Margin in the metric's unit; required by `not_worse` and `equivalent`."""
    metric: MetricRef | None = None
    """One of the run's metrics, a mean of bounded values; by default the first."""
    baseline: UUID | None = None
    """A run over the same samples; in an experiment by default its first run over them."""
    alpha: Annotated[float, Field(ge=1e-6, lt=1)] = 0.05
    min_samples: Annotated[int, Field(ge=1)] = 30
    seed: int = 0


class EvaluationChoices(Strict):
    """Choices of a re-scoring run, which replace those of the run whose answers it re-scores."""

    metrics: MetricRefs | None = None
    extractors: Extractors | None = None
    group_by: Columns | None = None
    on_model_failure: Literal["zero", "exclude"] | None = None
    on_invalid: Literal["zero", "exclude"] | None = None


class ImportChoices(Strict):
    """Choices of a run whose answers are imported from a file."""

    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Model that gave the answers, if the file does not name it or should not be trusted."""
    task: Slug | None = None
    """Task whose metrics, extractors, groups and policies apply unless they are chosen."""
    dataset: DatasetRef | None = None
    """Dataset of the questions and references, matched by the samples' keys. By default those of the file."""


class RunChoices(Strict):
    """Choices of a run, which replace those of its task."""

    prompt: Slug | None = None
    decoding: Decoding | None = None
    """Overrides the task's decoding, key by key."""
    scenario: ScenarioRef | None = None
    dataset: DatasetRef | None = None
    """Dataset that replaces the task's; to use only fewer samples of the task's dataset, set `limit`."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """Maximum number of samples: the first ones in the dataset's order, or with a draw a smaller draw."""
    metrics: MetricRefs | None = None
    extractors: Extractors | None = None
    reports: ReportNames | None = None
    group_by: Columns | None = None
    on_model_failure: Literal["zero", "exclude"] | None = None
    on_invalid: Literal["zero", "exclude"] | None = None
    reuse: Literal["equal", "nothing", "cache"] | None = None
    """`cache` reuses answers of any run of the project to the same requests, from the same target and engine."""
    stop: StopChoice | None = None
    """Stop rule: samples are requested in random order, and only until the result is certain."""
    shares_device: bool = False
    """Whether the run's speed does not count: it may share its devices with other runs that say so."""
    response_format: ResponseFormat | None = None
    limits: Limits = Limits()
    secrets: Annotated[tuple[SecretName, ...], Field(max_length=32), AfterValidator(without_repeats)] = ()
