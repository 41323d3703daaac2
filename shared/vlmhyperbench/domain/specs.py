"""What a run is, pinned: the frozen models that are hashed, stored with the run and read by every service.

Registry entries (`registry.schemas`) are what people write; `registry.resolution` turns names into these.
"""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, JsonValue, model_validator

from vlmhyperbench.domain.base import Name, Refused, Sha256, Spec
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.prices import Prices
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench_sdk.gateway import named_secrets


class PackageRef(Spec):
    """A plugin's distribution and the version that was resolved."""

    distribution: Name
    version: str

    @property
    def label(self) -> str:
        """How reports and identities name it."""
        return f"{self.distribution} {self.version}"


class SourceRef(Spec):
    """The code behind a dotted path, which no distribution gives a version."""

    module: Name
    sha256: Sha256
    """Of its source, and of the modules beside it in its package."""

    @property
    def label(self) -> str:
        """How reports and identities name it."""
        return f"{self.module} sha256:{self.sha256}"


PluginRef = PackageRef | SourceRef
"""What a run pins of a plugin: two runs with equal ones ran the same code. Told apart by their fields."""


class ModelFile(Spec):
    """One file of a model: where it is found, and what it must hash to."""

    role: Name
    location: str
    """Absolute path, or `package:<distribution>/<path inside it>`."""
    sha256: Sha256


class ModelTarget(Spec):
    """A model behind an adapter."""

    kind: Literal["model"] = "model"
    model: Name
    version: str
    backend: Name
    backend_class: Name
    """Entry-point name of the adapter, or a dotted path."""
    adapter: PluginRef | None = None
    files: tuple[ModelFile, ...] = ()
    engine_params: dict[str, JsonValue] = Field(default_factory=dict)
    quantization: str | None = None
    license: str | None = None

    @property
    def served_name(self) -> str:
        """The model's name in requests and tables."""
        return self.model

    @property
    def secret_names(self) -> list[str]:
        """Secrets that the target names."""
        return named_secrets(self.engine_params)


class EndpointTarget(Spec):
    """An OpenAI-compatible endpoint that somebody else runs."""

    kind: Literal["endpoint"] = "endpoint"
    endpoint: Annotated[str, Field(max_length=2000)]
    model_name: Name
    backend_class: Name = "openai"
    adapter: SourceRef | None = Field(default=None, exclude_if=lambda adapter: adapter is None)
    """Only of a dotted path; left out elsewhere, so that the digest of an endpoint stays what it was."""
    engine_params: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def served_name(self) -> str:
        """The model's name in requests and tables."""
        return self.model_name

    @property
    def secret_names(self) -> list[str]:
        """Secrets that the target names."""
        return named_secrets(self.engine_params)


class ImportTarget(Spec):
    """Answers that another tool asked for; nothing is asked again, and nothing is timed."""

    kind: Literal["import"] = "import"
    model_name: Name
    """As the file says, or as its importer does."""
    format: Name
    """What the file was: `lm-eval`, `inspect` …"""
    tool: Annotated[str, Field(max_length=200)] | None = None
    """Name and version of the tool, as the file says."""
    answers: Sha256
    """Of the answers in the neutral form, by which storage keeps them."""
    decoding: dict[str, JsonValue] = Field(default_factory=dict)
    """How they were sampled, as far as the file says."""

    @property
    def served_name(self) -> str:
        """The model's name in tables."""
        return self.model_name

    @property
    def secret_names(self) -> list[str]:
        """Nothing is asked, so no secret is needed."""
        return []

    @property
    def backend_class(self) -> str:
        """Nothing of ours answered."""
        return "import"

    @property
    def engine_params(self) -> dict[str, JsonValue]:
        """Nobody knows them."""
        return {}


Target = Annotated[ModelTarget | EndpointTarget | ImportTarget, Field(discriminator="kind")]


ANSWERS_DATASET = "vlmhyperbench.exchange.dataset:AnswersDataset"
"""Type of a data set that is the questions of an imported file."""


class DatasetSpec(Spec):
    """What INDEX enumerates; two runs with equal dataset specs share one sample manifest."""

    name: Name
    version: str
    type: Name
    """Entry-point name or dotted path."""
    package: PluginRef | None = None
    path: str | None = None
    revision: str | None = None
    split: str | None = None
    params: dict[str, JsonValue] = Field(default_factory=dict)
    seed: int = 0
    limit: Annotated[int, Field(ge=1)] | None = None
    """At most so many samples, the first in the dataset's order."""
    doc_classes: tuple[str, ...] = ()
    question_types: tuple[str, ...] = ()
    """Filters on metadata; empty means all."""
    required_fields: tuple[str, ...] = ()
    """Metadata that the task needs on every sample."""


class PromptText(Spec):
    """Templates of one kind of document; None falls through to the next level."""

    system_prompt: str | None = None
    user_prompt: str | None = None


class PromptSpec(Spec):
    """Per field: fixed > mapping by `metadata.doc_type` or `metadata.doc_class` > default.

    Templates are sandboxed Jinja2.
    """

    name: Name
    version: str
    system_prompt: str | None = None
    user_prompt: str = "{{ question }}"
    fixed_system_prompt: str | None = None
    fixed_prompt: str | None = None
    type_mapping: dict[str, PromptText] = Field(default_factory=dict)


class PromptStrategySpec(Spec):
    """A prompt that a plugin makes of each sample."""

    name: Name
    version: str
    class_path: Name
    """Entry-point name or dotted path."""
    package: PluginRef | None = None
    params: dict[str, JsonValue] = Field(default_factory=dict)


AnyPrompt = PromptSpec | PromptStrategySpec
"""Told apart by their fields, so that the digest of a run with templates stays what it was."""


class MetricSpec(Spec):
    """One metric of a run; `(name, profile, version, package)` identify its numbers."""

    name: Name
    profile: str
    version: str
    class_path: str
    """Entry-point name or dotted path."""
    package: PluginRef | None = None
    params: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def label(self) -> str:
        """How runs, tables and rules name it: `name@profile`."""
        return f"{self.name}@{self.profile}"


class ReportWriterSpec(Spec):
    """A form of report that a plugin writes."""

    name: Name
    """Of the entry; the file is `report.<name>` and the suffix that the writer says."""
    class_path: Name
    """Entry-point name or dotted path."""
    package: PackageRef | None = None
    params: dict[str, JsonValue] = Field(default_factory=dict)


class ExtractorSpec(Spec):
    """How the parsed answer is read out of a model's text."""

    name: Name = "text"
    version: Annotated[int, Field(ge=1)] = 1
    params: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def label(self) -> str:
        """What keys the measures: `text@1`, and with params the beginning of their digest, `regex@1 5ab1c702`."""
        label = f"{self.name}@{self.version}"
        return f"{label} {digest_of(self.params)[:8]}" if self.params else label


StopText = Annotated[str, Field(min_length=1, max_length=1000)]


class Decoding(Spec):
    """Sampling parameters; what is None is left to the engine."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)] = 256
    stop: Annotated[tuple[StopText, ...], Field(max_length=16)] = ()
    """As many as the engines' common ground allows."""
    seed: int | None = None
    n: Annotated[int, Field(ge=1, le=64)] = 1
    """Answers per sample: as many repeats of the request."""


class StopRule(Spec):
    """When enough is known: the gain of one metric over a baseline is certain, and no further sample is asked.

    `better` gain > margin, `worse` gain < -margin, `not_worse` gain > -margin, `equivalent` both; certainty that the
    rule does not hold stops as well (`analysis.sequential`).
    """

    baseline: UUID | None = None
    """The run to compare with; None is the first run of the same experiment."""
    metric: Name
    """`name@profile` of one of the run's metrics."""
    rule: Literal["better", "worse", "not_worse", "equivalent"]
    margin: Annotated[float, Field(ge=0)] = 0.0
    """In the metric's unit."""
    alpha: Annotated[float, Field(ge=1e-6, lt=1)] = 0.05
    """Probability of ever stopping on what is not so."""
    min_samples: Annotated[int, Field(ge=1)] = 30
    seed: int = 0
    """Of the random order in which samples are asked; it is fixed before an answer is known."""

    @model_validator(mode="after")
    def _needs_a_margin(self) -> StopRule:
        if self.rule in {"not_worse", "equivalent"} and self.margin == 0:
            message = f"the rule {self.rule} needs a margin above 0: without one no sample can show it"
            raise Refused(message, cure="Add a margin, in the metric's unit.")
        return self

    @property
    def label(self) -> str:
        """The rule in words, as events, jobs and reports name it: `not_worse by 0.02 on exact_match@v1`."""
        return f"{self.rule} by {self.margin:g} on {self.metric}"


class Limits(Spec):
    """Bounds of a run."""

    shard_size: Annotated[int, Field(ge=1, le=100_000)] = 1000
    request_timeout_s: Annotated[float, Field(gt=0, le=3600)] = 300.0
    load_timeout_s: Annotated[float, Field(gt=0, le=7200)] = 300.0
    tries: Annotated[int, Field(ge=1, le=5)] = 5
    """For transient errors in resumable closed-loop phases."""
    max_image_bytes: Annotated[int, Field(ge=1)] = 20_000_000
    max_image_pixels: Annotated[int, Field(ge=1)] = 50_000_000


class RunSpec(Spec):
    """The pinned description of a run: one target, one task, one scenario. Its digest is `digests.digest_of(spec)`."""

    version: Literal[1] = 1
    target: Target
    task: Name
    task_version: str
    category: str | None = None
    dataset: DatasetSpec
    prompt: AnyPrompt
    metrics: tuple[MetricSpec, ...]
    extractors: Annotated[tuple[ExtractorSpec, ...], Field(min_length=1)] = (ExtractorSpec(),)
    """Every metric is measured with each; the first is the one that tables show."""
    decoding: Decoding = Decoding()
    scenario: ScenarioSpec = ScenarioSpec()
    group_by: tuple[str, ...] = ()
    reports: tuple[Name | ReportWriterSpec, ...] = ("markdown", "html", "json", "csv")
    """A form of our own by its name, any other by the plugin that writes it."""
    response_format: dict[str, JsonValue] | None = None
    limits: Limits = Limits()
    secrets: tuple[Name, ...] = ()
    """Names only; values live in 0600 files that the worker's supervisor reads."""
    on_model_failure: Literal["zero", "exclude"] = "zero"
    on_invalid: Literal["zero", "exclude"] = "exclude"
    """What an answer counts as in which nothing can be read, by an extractor or by a metric that reads it itself."""
    reuse: Literal["equal", "answers", "nothing", "cache"] = "equal"
    """What is kept of other runs. `equal`: answers of a parent that are ok, to the same request, by the same target and
    engine, and measures made of the same; `answers`: only those; `cache`: answers of any run of the project too, unless
    they are sampled; or nothing."""
    stop: StopRule | None = None
    """Ends the inference early; every sample is asked without one."""
    prices: Prices | None = None
    """Of the target, as they were when the run was submitted. They change no answer, so no fingerprint holds them."""
    unpriced: str | None = None
    """Why there are no prices."""
