"""The pinned spec of a run: frozen models that are hashed, stored with the run and read by every service.

Users write registry entries (`registry.schemas`); `registry.resolution` resolves their names into these models.
"""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, JsonValue, model_validator

from vlmhyperbench.domain.base import Name, Refused, Sha256, Spec
from vlmhyperbench.domain.decoding import Decoding
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.domain.pipelines import PipelineTarget, StageId
from vlmhyperbench.domain.prices import Prices
from vlmhyperbench.domain.recipes import ModelFile
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.selection import PreprocessStep, SamplingSpec
from vlmhyperbench.domain.targets import (
    EndpointTarget,
    ImportTarget,
    ModelTarget,
    PackageRef,
    PluginRef,
    SourceRef,
)

__all__ = [
    "ANSWERS_DATASET",
    "AnyPrompt",
    "DatasetSpec",
    "Decoding",
    "EndpointTarget",
    "ExtractorSpec",
    "FewShotSpec",
    "ImportTarget",
    "Limits",
    "MetricSpec",
    "ModelFile",
    "ModelTarget",
    "PackageRef",
    "PipelineTarget",
    "PluginRef",
    "PromptCollection",
    "PromptSpec",
    "PromptStrategySpec",
    "PromptText",
    "ReportWriterSpec",
    "RunSpec",
    "SourceRef",
    "StopRule",
    "Target",
]


Target = Annotated[ModelTarget | EndpointTarget | ImportTarget | PipelineTarget, Field(discriminator="kind")]


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
    """Maximum number of samples; the first ones in the dataset's order, or with `sampling` a smaller draw."""
    doc_classes: tuple[str, ...] = ()
    """Filter on metadata; empty means all, as for `question_types`."""
    question_types: tuple[str, ...] = ()
    required_fields: tuple[str, ...] = ()
    """Metadata that every sample must have."""
    environment: VirtualenvSpec | None = Field(default=None, exclude_if=lambda environment: environment is None)
    """Where it is read, with the package that it comes from; None is the platform's own interpreter, and left out, so
    that digests did not change."""
    where: tuple[str, ...] = Field(default=(), exclude_if=lambda where: not where)
    """Filters on metadata, all of which a sample must pass."""
    sampling: SamplingSpec | None = Field(default=None, exclude_if=lambda sampling: sampling is None)
    """Draw among the samples that pass the filters; `limit` makes the draw smaller."""
    preprocess: tuple[PreprocessStep, ...] = Field(default=(), exclude_if=lambda steps: not steps)
    """What is done to the images, in this order, before they are stored."""
    sha256: dict[str, str] = Field(default_factory=dict, exclude_if=lambda hashes: not hashes)
    """File of the dataset → its hash, compared before it is read."""


class PromptText(Spec):
    """Templates for one document type; if one is None, that of the next level applies."""

    system_prompt: str | None = None
    user_prompt: str | None = None


class PromptCollection(Spec):
    """The file that the templates by type were read from; its hash is their version."""

    path: str
    sha256: Sha256
    has_default: bool
    """Whether samples of other types have a prompt, too."""


class FewShotSpec(Spec):
    """Examples that stand before every question, as earlier turns of the chat with accepted answers."""

    dataset: DatasetSpec
    """Where they are drawn; its `sampling` states how many there are, the seed, and the strata."""
    answer_field: str | None = None
    """Metadata that has an example's answer; None: its first reference."""

    @property
    def count(self) -> int:
        """Number of examples."""
        return self.dataset.sampling.size if self.dataset.sampling is not None else 0


class PromptSpec(Spec):
    """Prompt templates in sandboxed Jinja2.

    For each field the fixed template applies, else that of the sample's type, else the default. Types are, in this
    order: `<doc_type> <question_type>`, `<doc_class> <question_type>`, `doc_type`, `doc_class`, all from its metadata.
    """

    name: Name
    version: str
    system_prompt: str | None = None
    user_prompt: str = "{{ question }}"
    fixed_system_prompt: str | None = None
    fixed_prompt: str | None = None
    type_mapping: dict[str, PromptText] = Field(default_factory=dict)
    collection: PromptCollection | None = Field(default=None, exclude_if=lambda collection: collection is None)
    few_shot: FewShotSpec | None = Field(default=None, exclude_if=lambda few_shot: few_shot is None)
    """Left out where there is none, as `collection`, so that digests did not change."""


class PromptStrategySpec(Spec):
    """A plugin that builds the prompt of each sample."""

    name: Name
    version: str
    class_path: Name
    """Entry-point name or dotted path."""
    package: PluginRef | None = None
    params: dict[str, JsonValue] = Field(default_factory=dict)
    environment: VirtualenvSpec | None = Field(default=None, exclude_if=lambda environment: environment is None)
    """Where it renders, with the package that it comes from; left out as that of a dataset."""
    few_shot: FewShotSpec | None = Field(default=None, exclude_if=lambda few_shot: few_shot is None)


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
    allow_lossy: bool = Field(default=False, exclude_if=lambda allows: not allows)
    """Whether a model that does not fit may be loaded with a smaller KV cache, which may cost quality; left out
    otherwise, so that digests did not change."""


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
    is_session: bool = Field(default=False, exclude_if=lambda is_session: not is_session)
    """Whether it is a question that somebody asked a pipeline, and no benchmark; left out otherwise."""
    asks_again: tuple[StageId, ...] = Field(default=(), exclude_if=lambda stages: not stages)
    """Stages of a pipeline whose models are asked although the parent has their answers; left out without any."""
    smaller: tuple[ModelTarget, ...] = Field(default=(), exclude_if=lambda targets: not targets)
    """Smaller quantisations of the target that may stand for it, the largest first; only by `limits.allow_lossy`."""
    prices: Prices | None = None
    """Prices of the target at submission. They change no answer, so they are not part of any fingerprint."""
    unpriced: str | None = None
    """Why the target has no prices."""

    @property
    def apart(self) -> dict[str, VirtualenvSpec]:
        """Environments of plugins by what runs there: metrics by their labels, `dataset NAME` and `prompt NAME`."""
        prompt = self.prompt.environment if isinstance(self.prompt, PromptStrategySpec) else None
        every = {f"dataset {self.dataset.name}": self.dataset.environment, f"prompt {self.prompt.name}": prompt}
        if (few_shot := self.prompt.few_shot) is not None:
            every |= {f"dataset {few_shot.dataset.name}": few_shot.dataset.environment}
        every |= {metric.label: metric.environment for metric in self.metrics}
        return {name: environment for name, environment in every.items() if environment is not None}

    @property
    def target_digest(self) -> str:
        """Digest of the target: jobs with equal ones can use one loaded model."""
        return digest_of(self.target)
