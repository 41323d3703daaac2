"""The pinned spec of a run: frozen models that are hashed, stored with the run and read by every service.

Users write registry entries (`registry.schemas`); `registry.resolution` resolves their names into these models.
"""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, JsonValue, model_validator

from vlmhyperbench.domain.base import Name, Refused, Sha256, Spec
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.environments import EnvironmentSpec, VirtualenvSpec
from vlmhyperbench.domain.packages import PackageSpec
from vlmhyperbench.domain.prices import Prices
from vlmhyperbench.domain.recipes import ModelFile, RecipeSpec
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench_sdk.gateway import named_secrets


class PackageRef(Spec):
    """A plugin's distribution and the version that was resolved."""

    distribution: Name
    version: str

    @property
    def label(self) -> str:
        """Name in reports and identities."""
        return f"{self.distribution} {self.version}"


class SourceRef(Spec):
    """The code of a dotted path, which has no distribution and therefore no version."""

    module: Name
    sha256: Sha256
    """Hash of its source and of the other modules of its package."""

    @property
    def label(self) -> str:
        """Name in reports and identities."""
        return f"{self.module} sha256:{self.sha256}"


PluginRef = PackageRef | SourceRef
"""The pinned code of a plugin: runs with equal references ran the same code. Distinguished by their fields."""


class ModelTarget(Spec):
    """A model that an adapter runs."""

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
    environment: EnvironmentSpec | None = Field(default=None, exclude_if=lambda environment: environment is None)
    """Where the engine runs; None is the platform's own interpreter, and left out, so that digests did not change."""
    recipe: RecipeSpec | None = Field(default=None, exclude_if=lambda recipe: recipe is None)
    """How files were made that nobody offers; left out where none were."""
    adapter_environment: VirtualenvSpec | None = Field(default=None, exclude_if=lambda environment: environment is None)
    """Where gateway and adapter run, and the engine too unless it has one of its own; left out where the platform's own
    interpreter has the adapter."""

    @property
    def is_apart(self) -> bool:
        """Whether the engine runs in another environment than the platform's own."""
        return self.environment is not None or self.adapter_environment is not None

    @property
    def brings_its_adapter(self) -> bool:
        """Whether the adapter is run from a package that the target pins, and not from beside the platform."""
        return self.adapter_environment is not None

    @property
    def packages(self) -> tuple[PackageSpec, ...]:
        """Packages of others that adapter and engine need."""
        environments = (self.adapter_environment, self.environment)
        held = [each.packages for each in environments if isinstance(each, VirtualenvSpec)]
        return tuple(dict.fromkeys(package for packages in held for package in packages))

    requires_certificate: tuple[str, ...] | None = Field(default=None, exclude_if=lambda checks: checks is None)
    """Checks of a certificate that must have passed on the worker's machine; empty: none may have failed. None: none is
    needed, and left out, so that digests did not change."""

    @property
    def served_name(self) -> str:
        """The model's name in requests and tables."""
        return self.model

    @property
    def secret_names(self) -> list[str]:
        """Names of the secrets that the target needs."""
        return named_secrets(self.engine_params)


class EndpointTarget(Spec):
    """An OpenAI-compatible endpoint that is not run by the platform."""

    kind: Literal["endpoint"] = "endpoint"
    endpoint: Annotated[str, Field(max_length=2000)]
    model_name: Name
    backend_class: Name = "openai"
    adapter: SourceRef | None = Field(default=None, exclude_if=lambda adapter: adapter is None)
    """Only set for a dotted path; otherwise it is left out, so that digests of endpoints did not change."""
    engine_params: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def brings_its_adapter(self) -> bool:
        """False: adapters of endpoints are installed beside the platform."""
        return False

    @property
    def served_name(self) -> str:
        """The model's name in requests and tables."""
        return self.model_name

    @property
    def secret_names(self) -> list[str]:
        """Names of the secrets that the target needs."""
        return named_secrets(self.engine_params)


class ImportTarget(Spec):
    """Imported answers of another tool; no request is sent, and nothing is timed."""

    kind: Literal["import"] = "import"
    model_name: Name
    """Name from the file, or from the user who imports it."""
    format: Name
    """Format of the original file: `lm-eval`, `inspect` …"""
    tool: Annotated[str, Field(max_length=200)] | None = None
    """Name and version of the tool, if the file has them."""
    answers: Sha256
    """Hash of the answers in the neutral format, which is part of their key in storage."""
    decoding: dict[str, JsonValue] = Field(default_factory=dict)
    """Sampling parameters, if the file has them."""

    @property
    def served_name(self) -> str:
        """The model's name in tables."""
        return self.model_name

    @property
    def secret_names(self) -> list[str]:
        """Empty, since no request is sent."""
        return []

    @property
    def backend_class(self) -> str:
        """A constant, since no backend answered."""
        return "import"

    @property
    def engine_params(self) -> dict[str, JsonValue]:
        """Empty, since they are unknown."""
        return {}


Target = Annotated[ModelTarget | EndpointTarget | ImportTarget, Field(discriminator="kind")]


ANSWERS_DATASET = "vlmhyperbench.exchange.dataset:AnswersDataset"
"""Type of a dataset that has the questions of an imported file."""


class DatasetSpec(Spec):
    """The input of INDEX; runs with equal dataset specs share one sample manifest."""

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
    """Maximum number of samples; the first ones in the dataset's order are taken."""
    doc_classes: tuple[str, ...] = ()
    """Filter on metadata; empty means all, as for `question_types`."""
    question_types: tuple[str, ...] = ()
    required_fields: tuple[str, ...] = ()
    """Metadata that every sample must have."""


class PromptText(Spec):
    """Templates for one document type; if one is None, that of the next level applies."""

    system_prompt: str | None = None
    user_prompt: str | None = None


class PromptSpec(Spec):
    """Prompt templates in sandboxed Jinja2.

    For each field the fixed template applies, else that of the document type (`metadata.doc_type`, else
    `metadata.doc_class`), else the default.
    """

    name: Name
    version: str
    system_prompt: str | None = None
    user_prompt: str = "{{ question }}"
    fixed_system_prompt: str | None = None
    fixed_prompt: str | None = None
    type_mapping: dict[str, PromptText] = Field(default_factory=dict)


class PromptStrategySpec(Spec):
    """A plugin that builds the prompt of each sample."""

    name: Name
    version: str
    class_path: Name
    """Entry-point name or dotted path."""
    package: PluginRef | None = None
    params: dict[str, JsonValue] = Field(default_factory=dict)


AnyPrompt = PromptSpec | PromptStrategySpec
"""Distinguished by their fields instead of a tag, so that digests of runs with templates did not change."""


class MetricSpec(Spec):
    """A metric of a run; `(name, profile, version, package)` identify its numbers."""

    name: Name
    profile: str
    version: str
    class_path: str
    """Entry-point name or dotted path."""
    package: PluginRef | None = None
    """None also for a metric in its own environment, whose packages are resolved where it runs."""
    params: dict[str, JsonValue] = Field(default_factory=dict)
    environment: VirtualenvSpec | None = Field(default=None, exclude_if=lambda environment: environment is None)
    """Where it runs; None is the platform's own interpreter, and left out, so that digests did not change."""

    @property
    def label(self) -> str:
        """Name in runs, tables and rules: `name@profile`."""
        return f"{self.name}@{self.profile}"


class ReportWriterSpec(Spec):
    """A report format that a plugin writes."""

    name: Name
    """Name of the entry; the file is `report.<name>` with the writer's suffix."""
    class_path: Name
    """Entry-point name or dotted path."""
    package: PackageRef | None = None
    params: dict[str, JsonValue] = Field(default_factory=dict)


class ExtractorSpec(Spec):
    """The extractor that parses the answer from a model's text."""

    name: Name = "text"
    version: Annotated[int, Field(ge=1)] = 1
    params: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def label(self) -> str:
        """Key in measures: `text@1`; with parameters also the beginning of their digest, `regex@1 5ab1c702`."""
        label = f"{self.name}@{self.version}"
        return f"{label} {digest_of(self.params)[:8]}" if self.params else label


StopText = Annotated[str, Field(min_length=1, max_length=1000)]


class Decoding(Spec):
    """Sampling parameters; None leaves the value to the engine."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)] = 256
    stop: Annotated[tuple[StopText, ...], Field(max_length=16)] = ()
    """Stop sequences; the maximum number is the smallest of the supported engines."""
    seed: int | None = None
    n: Annotated[int, Field(ge=1, le=64)] = 1
    """Number of answers per sample, each of which is a repeat of the request."""


class StopRule(Spec):
    """A rule that stops a run early, once it is certain whether it holds for the gain of one metric over a baseline.

    `better`: gain > margin; `worse`: gain < -margin; `not_worse`: gain > -margin; `equivalent`: -margin < gain < margin
    (`analysis.sequential`).
    """

    baseline: UUID | None = None
    """The run to compare with; None is the first run of the same experiment."""
    metric: Name
    """`name@profile` of one of the run's metrics."""
    rule: Literal["better", "worse", "not_worse", "equivalent"]
    margin: Annotated[float, Field(ge=0)] = 0.0
    """In the metric's unit."""
    alpha: Annotated[float, Field(ge=1e-6, lt=1)] = 0.05
    """Maximum probability of a wrong decision over the whole run."""
    min_samples: Annotated[int, Field(ge=1)] = 30
    seed: int = 0
    """Seed of the random order in which samples are asked, which is fixed before any answer is known."""

    @model_validator(mode="after")
    def _needs_a_margin(self) -> StopRule:
        if self.rule in {"not_worse", "equivalent"} and self.margin == 0:
            message = f"the rule {self.rule} needs a margin above 0, since no number of samples can show it with 0"
            raise Refused(message, cure="Add a margin, in the metric's unit.")
        return self

    @property
    def label(self) -> str:
        """The rule in events, jobs and reports: `not_worse by 0.02 on exact_match@v1`."""
        return f"{self.rule} by {self.margin:g} on {self.metric}"


class Limits(Spec):
    """Bounds of a run."""

    shard_size: Annotated[int, Field(ge=1, le=100_000)] = 1000
    request_timeout_s: Annotated[float, Field(gt=0, le=3600)] = 300.0
    load_timeout_s: Annotated[float, Field(gt=0, le=7200)] = 300.0
    tries: Annotated[int, Field(ge=1, le=5)] = 5
    """Maximum number of tries of a request after transient errors, in resumable closed-loop phases."""
    max_image_bytes: Annotated[int, Field(ge=1)] = 20_000_000
    max_image_pixels: Annotated[int, Field(ge=1)] = 50_000_000
    allow_lossy: bool = False
    """Whether a model that does not fit may be loaded with a smaller KV cache, which may cost quality."""


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
    """Every metric is computed with each extractor; tables show the first one."""
    decoding: Decoding = Decoding()
    scenario: ScenarioSpec = ScenarioSpec()
    group_by: tuple[str, ...] = ()
    reports: tuple[Name | ReportWriterSpec, ...] = ("markdown", "html", "json", "csv")
    """Report formats: a built-in one by its name, others by their plugin."""
    response_format: dict[str, JsonValue] | None = None
    limits: Limits = Limits()
    secrets: tuple[Name, ...] = ()
    """Names only; the values are in files with mode 0600 that the worker's supervisor reads."""
    on_model_failure: Literal["zero", "exclude"] = "zero"
    on_invalid: Literal["zero", "exclude"] = "exclude"
    """Policy for an answer that cannot be parsed, by an extractor or by a metric that parses it itself."""
    reuse: Literal["equal", "answers", "nothing", "cache"] = "equal"
    """What is reused from other runs. `equal`: the parent's answers that are ok, to the same request and by the same
    target and engine, and measures of the same inputs; `answers`: only answers of the parent; `cache`: as `equal`, and
    also unsampled answers of any run of the project; `nothing`."""
    stop: StopRule | None = None
    """Ends the inference early; without it every sample is asked."""
    shares_device: bool = Field(default=False, exclude_if=lambda shares: not shares)
    """Whether its speed does not count, so that it may share its devices; left out otherwise, so that digests did not
    change."""
    prices: Prices | None = None
    """Prices of the target at submission. They change no answer, so they are not part of any fingerprint."""
    unpriced: str | None = None
    """Why the target has no prices."""

    @property
    def target_digest(self) -> str:
        """Digest of the target: jobs with equal ones can use one loaded model."""
        return digest_of(self.target)
