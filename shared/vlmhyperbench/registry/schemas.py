"""Models of `registries/<kind>/<name>.yaml`: one Pydantic model per kind, and their JSON Schemas.

`registry.schema_lines` writes the JSON Schemas, `registry.resolution` turns entries into specs.
"""

from __future__ import annotations

import json
import math
from typing import Annotated, Final, Literal

from pydantic import Discriminator, Field, JsonValue, Tag, model_validator

from vlmhyperbench.domain.base import Refused, Sha256
from vlmhyperbench.domain.packages import Extra
from vlmhyperbench.domain.request_styles import ReasoningMarks, RequestStyle
from vlmhyperbench.domain.scenarios import ScenarioFields, ScenarioKind
from vlmhyperbench.domain.selection import PreprocessStep, SamplingSpec
from vlmhyperbench.domain.specs import Decoding
from vlmhyperbench.errors import NotFound
from vlmhyperbench.registry.benchmarks import Benchmark
from vlmhyperbench.registry.choices import (
    Columns,
    EnvironmentChoice,
    Extractors,
    Filters,
    Labels,
    MetricEnvironmentChoice,
    MetricRefs,
    ReportNames,
    ResponseFormat,
    RunChoices,
    RunTargetChoice,
    ScenarioRef,
    name_tag,
)
from vlmhyperbench.registry.field_docs import described_schema
from vlmhyperbench.registry.lenses import LensFields
from vlmhyperbench.registry.model_facts import FilesOfModel, VerifiedRun
from vlmhyperbench.registry.pipelines import PipelineFields
from vlmhyperbench.registry.plugins import BUILT_IN_REPORTS
from vlmhyperbench.registry.prices import PricesChoice
from vlmhyperbench.registry.prompts import PromptFields
from vlmhyperbench.registry.requirements import Certified
from vlmhyperbench.registry.sources import PackageSource
from vlmhyperbench.registry.values import Params, PluginName, Semver, Slug, Strict
from vlmhyperbench_sdk.discovery import Group
from vlmhyperbench_sdk.suggestions import did_you_mean


class Entry(Strict):
    """Fields of every kind. The key of an entry is the stem of its file; `name`, if present, must be equal to it."""

    name: Slug | Literal[""] = ""
    version: Semver = "1.0.0"
    description: str = ""


class PackageEntry(Entry):
    """A package of others: where it comes from. The entry's key is the distribution's name.

    A backend that names it is run from it, in an environment of its own. Entries of other kinds that name it are
    refused where their plugin is another distribution's.
    """

    source: PackageSource
    extras: tuple[Extra, ...] = ()
    """Extras of the distribution that are installed too."""
    plugins: dict[Group, tuple[str, ...]] | None = None
    """Kind → names that it registers, which `vlmhyperbench registry add package` writes; None if unknown."""


class ModelEntry(FilesOfModel, Entry, Certified):
    """A model: its files with their hashes, and the backends that can run it, the first by default."""

    backends: Annotated[tuple[Slug, ...], Field(min_length=1)]
    family: str | None = None
    license: str | None = None
    """Shown in the provenance of reports."""
    quantization: str | None = None
    variant_of: Slug | None = None
    """Model of which this is another quantisation, so that it may stand for it where `limits.allow_lossy` says so."""
    parameter_count: Annotated[int, Field(ge=1)] | None = None
    """Number of parameters, rounded as the model's page states it; shown by `vlmhyperbench models`, as are the next."""
    context_tokens: Annotated[int, Field(ge=1)] | None = None
    """Maximum context that the model's configuration or page states; an engine may be given less."""
    images: str | None = None
    """How many images a request may have, and how they become tokens."""
    chat_template: str | None = None
    """Peculiarities of its prompts and its chat template."""
    sources: Annotated[tuple[Annotated[str, Field(pattern=r"^https://")], ...], Field(max_length=10)] = ()
    """Pages from which these facts were taken."""
    verified: tuple[VerifiedRun, ...] = ()
    """Where it was run; empty says that the entry holds facts of others only."""
    engine_params: Params = Field(default_factory=dict)
    request_style: RequestStyle = "openai_chat"
    """How its messages are written: `instruct` puts the system prompt before the question, for templates without a
    system role; `translategemma` sends the text alone, and the codes of the languages as values of the template."""
    strip_reasoning: bool = False
    """Whether its reasoning is left out of a pipeline's own answer too, not only of what is forwarded."""
    reasoning_marks: Annotated[tuple[ReasoningMarks, ...], Field(max_length=10)] = ()
    """What it writes around its reasoning, beside tags such as `<think>`; without `begin`, that begins its answer."""
    pin: bool = False
    """Whether a load of it is pinned: other models make room before it does."""
    prices: PricesChoice | None = None
    backend_class: PluginName | None = None
    adapter_package: Slug | None = None
    """Entry of `packages` from which `backend_class` is run, in an environment of its own."""
    environment: EnvironmentChoice | None = None
    """Replaces that of the backend."""

    @model_validator(mode="after")
    def _package_is_of_an_adapter(self) -> ModelEntry:
        if self.adapter_package is not None and self.backend_class is None:
            message = "adapter_package has no effect without backend_class"
            raise Refused(message, cure="Add backend_class, or leave adapter_package out.")
        return self


class SpecializedAdapter(Strict):
    """An adapter for only some models of a backend."""

    match_models: Annotated[tuple[str, ...], Field(min_length=1)]
    """Patterns of names or families, such as `deepseek-ocr*`."""
    backend_class: PluginName
    package: Slug | None = None


class BackendEntry(Entry, Certified):
    """A backend: an engine with its adapter."""

    default_backend_class: PluginName | None = None
    """Registered name or dotted path of the adapter; the entry's own name by default."""
    default_adapter_package: Slug | None = None
    """Entry of `packages` from which the adapter is run, in an environment of its own."""
    specialized_adapters: tuple[SpecializedAdapter, ...] = ()
    engine_params: Params = Field(default_factory=dict)
    """Defaults, which a model or an endpoint overrides."""
    environment: EnvironmentChoice | None = None
    """Where the engine of a model runs; without it, in the platform's interpreter."""
    prices: PricesChoice | None = None
    """Default prices of models and endpoints, such as the price of an hour of the machine."""


class DatasetEntry(Entry):
    """A dataset: a registered iterator and its arguments."""

    type: PluginName
    """Registered name or dotted path."""
    path: str | None = None
    """Folder or file, absolute or relative to the registries."""
    revision: str | None = None
    split: str | None = None
    params: Params = Field(default_factory=dict)
    seed: int = 0
    limit: Annotated[int, Field(ge=1)] | None = None
    doc_classes: Labels = ()
    question_types: Labels = ()
    where: Filters = ()
    """Filters on metadata, such as `doc_class=receipt,invoice` and `pages<=3`; a sample must pass all of them."""
    sampling: SamplingSpec | None = None
    """A seeded draw among the samples that pass the filters."""
    preprocess: tuple[PreprocessStep, ...] = ()
    """What is done to images before they are stored and sent."""
    sha256: dict[str, Sha256] = Field(default_factory=dict)
    """File of the dataset, relative to `path` → its hash; `.` for a path that is a file."""
    package: Slug | None = None


class PromptEntry(PromptFields, Entry):
    """A prompt: templates, a collection of them, or the class of a prompt plugin; with examples before the question.

    Per field of templates: fixed > by type > default. Types are, the narrowest first, `<doc_type> <question_type>`,
    `<doc_class> <question_type>`, `doc_type` and `doc_class` of the metadata.
    """


class MetricEntry(Entry):
    """A metric: a registered class, its default profile, and the params of other profiles."""

    class_path: PluginName
    """Registered name or dotted path."""
    profile: Slug
    profiles: dict[Slug, Params] = Field(default_factory=dict)
    """Other profile → its params, which override `params`."""
    params: Params = Field(default_factory=dict)
    package: Slug | None = None
    environment: MetricEnvironmentChoice | None = None
    """Where the metric runs, if not in the platform's interpreter; its class is then looked up there."""


class ReportEntry(Entry):
    """A report format: a built-in one, or a plugin's."""

    class_path: PluginName
    """Registered name or dotted path."""
    params: Params = Field(default_factory=dict)
    """Params of a plugin's writer."""
    package: Slug | None = None

    @model_validator(mode="after")
    def _our_own_take_no_params(self) -> ReportEntry:
        if self.params and self.class_path in BUILT_IN_REPORTS:
            raise Refused(f"the report {self.class_path!r} has no params", cure="Leave params out.")
        return self


class ScenarioEntry(Entry, ScenarioFields):
    """A scenario: how requests are scheduled and sent."""

    kind: ScenarioKind


class TaskEntry(Entry):
    """A task: a dataset, a prompt, metrics, and the choices that its runs allow."""

    category: str | None = None
    """Category of the task, shown next to its name in reports."""
    dataset: Slug
    prompt: Slug
    metrics: MetricRefs
    extractors: Extractors = ("text",)
    """How answers are parsed; every metric is computed with each extractor, and the first one counts."""
    reports: ReportNames = ("markdown", "html", "json", "csv")
    scenarios: Annotated[tuple[Slug, ...], Field(min_length=1)] = ("offline",)
    """Allowed scenarios; the first is the default."""
    supported_metrics: tuple[Slug, ...] = ()
    """Metrics that a run may choose; empty: all."""
    supported_reports: tuple[Slug, ...] = ()
    supported_backends: tuple[Slug, ...] = ()
    required_fields: Columns = ()
    """Metadata keys that every sample must have."""
    group_by: Columns = ()
    decoding: Decoding = Decoding()
    response_format: ResponseFormat | None = None
    on_model_failure: Literal["zero", "exclude"] = "zero"
    on_invalid: Literal["zero", "exclude"] = "exclude"
    """How an answer counts that cannot be parsed."""
    benchmark: Benchmark | None = None
    """What is known of it if it is a public benchmark: used by `make docs` for its page; it changes no run."""


class RunEntry(Entry, RunChoices):
    """A run: one target, one task, one scenario."""

    target: RunTargetChoice
    task: Slug


MAX_RUNS = 1000
"""Maximum runs of an experiment: a larger matrix is probably a mistake, and it is expanded within one request."""


class Matrix(Strict):
    """A matrix: every combination of its values is a run."""

    targets: Annotated[tuple[RunTargetChoice, ...], Field(min_length=1)]
    tasks: Annotated[tuple[Slug, ...], Field(min_length=1)]
    scenarios: tuple[ScenarioRef, ...] = ()
    prompts: tuple[Slug, ...] = ()
    decodings: tuple[Decoding, ...] = ()
    response_formats: tuple[ResponseFormat, ...] = ()
    """How answers are constrained: `text` is not at all, `json_schema` by the schema of each sample."""

    @model_validator(mode="after")
    def _is_bounded(self) -> Matrix:
        axes = (self.targets, self.tasks, self.scenarios, self.prompts, self.decodings, self.response_formats)
        count = math.prod(max(len(axis), 1) for axis in axes)
        if count > MAX_RUNS:
            message = f"it has {count:,} combinations, more than {MAX_RUNS:,}"
            raise Refused(message, cure="Split it into several experiments.")
        return self


class Exclusion(Strict):
    """An exclusion: combinations that match all values given here are left out."""

    target: str | None = None
    """Name of a model, or the model name of an endpoint."""
    task: Slug | None = None
    scenario: Slug | None = None
    prompt: Slug | None = None
    response_format: str | None = None
    """Name of a response format: its type, and the name of its schema if it has one."""


RunRef = Annotated[Annotated[Slug, Tag("a name")] | Annotated[RunEntry, Tag("written out")], Discriminator(name_tag)]


class ExperimentEntry(Entry):
    """Runs to compare, listed or as the combinations of a matrix; the first is the baseline."""

    runs: tuple[RunRef, ...] = ()
    """Names of registered runs, or inline runs."""
    matrix: Matrix | None = None
    exclude: tuple[Exclusion, ...] = ()
    defaults: RunChoices = RunChoices()
    """Values that apply to every run of the matrix."""

    @model_validator(mode="after")
    def _has_runs(self) -> ExperimentEntry:
        if bool(self.runs) == (self.matrix is not None):
            cure = "Leave out one of the two." if self.runs else "Add one of the two."
            raise Refused("an experiment needs either runs or a matrix", cure=cure)
        if self.runs and (self.exclude or self.defaults != RunChoices()):
            message = "exclude and defaults have an effect only on a matrix"
            raise Refused(message, cure="Leave them out, or write a matrix.")
        return self


class PipelineEntry(Entry, PipelineFields):
    """A pipeline: stages that ask models, whose last answer is its own; a target like a model."""


class LensEntry(Entry, LensFields):
    """A lens: a named view of runs with constraints and preferences."""


KINDS: Final[dict[str, type[Entry]]] = {
    "packages": PackageEntry,
    "models": ModelEntry,
    "backends": BackendEntry,
    "datasets": DatasetEntry,
    "prompts": PromptEntry,
    "tasks": TaskEntry,
    "metrics": MetricEntry,
    "scenarios": ScenarioEntry,
    "reports": ReportEntry,
    "runs": RunEntry,
    "experiments": ExperimentEntry,
    "pipelines": PipelineEntry,
    "lenses": LensEntry,
}
"""Folder → model of its files."""


def model_of(kind: str) -> type[Entry]:
    """Return the model of a kind.

    Raises:
        NotFound: there is no such kind.
    """
    if kind not in KINDS:
        raise NotFound(f"There is no kind of registry entry called {kind!r}.", cure=did_you_mean(kind, KINDS))
    return KINDS[kind]


def json_schema(kind: str) -> dict[str, JsonValue]:
    """Return the JSON Schema of a kind.

    Raises:
        NotFound: there is no such kind.
    """
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **described_schema(model_of(kind))}


def json_schemas() -> dict[str, str]:
    """Return file name → JSON Schema of every kind, as text."""
    return {f"{kind}.schema.json": json.dumps(json_schema(kind), indent=2, ensure_ascii=False) + "\n" for kind in KINDS}
