"""What a run is, pinned: the frozen models that are hashed, stored with the run and read by every service.

Registry entries (`registry.schemas`) are what people write; `registry.resolution` turns names into these.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

from vlmhyperbench.domain.digests import digest_of

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, Field(min_length=1, max_length=200)]


class Spec(BaseModel):
    """Base of every pinned model: immutable, and unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PackageRef(Spec):
    """A plugin's distribution and the version that was resolved."""

    distribution: Name
    version: str


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
    adapter: PackageRef | None = None
    files: tuple[ModelFile, ...] = ()
    engine_params: dict[str, JsonValue] = Field(default_factory=dict)
    quantization: str | None = None
    license: str | None = None

    @property
    def served_name(self) -> str:
        """The model's name in requests and tables."""
        return self.model


class EndpointTarget(Spec):
    """An OpenAI-compatible endpoint that somebody else runs."""

    kind: Literal["endpoint"] = "endpoint"
    endpoint: Annotated[str, Field(max_length=2000)]
    model_name: Name
    backend_class: Name = "openai"
    engine_params: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def served_name(self) -> str:
        """The model's name in requests and tables."""
        return self.model_name


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
    def backend_class(self) -> str:
        """Nothing of ours answered."""
        return "import"

    @property
    def engine_params(self) -> dict[str, JsonValue]:
        """Nobody knows them."""
        return {}


Target = Annotated[ModelTarget | EndpointTarget | ImportTarget, Field(discriminator="kind")]


class DatasetSpec(Spec):
    """What INDEX enumerates; two runs with equal dataset specs share one sample manifest."""

    name: Name
    version: str
    type: Name
    """Entry-point name or dotted path."""
    package: PackageRef | None = None
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


class MetricSpec(Spec):
    """One metric of a run; `(name, profile, version, package)` identify its numbers."""

    name: Name
    profile: str
    version: str
    class_path: str
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


class Decoding(Spec):
    """Sampling parameters; what is None is left to the engine."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)] = 256
    stop: tuple[str, ...] = ()
    seed: int | None = None
    n: Annotated[int, Field(ge=1, le=64)] = 1
    """Answers per sample: as many repeats of the request."""


_LIMIT = re.compile(r"(ttft|tpot|itl|latency)(_p[1-9]\d?)?")


class Slo(Spec):
    """Limits in milliseconds by name of the statistic, as `ttft_p99`; without a percentile it is the 99th."""

    limits_ms: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)

    @field_validator("limits_ms")
    @classmethod
    def _are_limits(cls, limits: dict[str, float]) -> dict[str, float]:
        for name in limits:
            if not _LIMIT.fullmatch(name):
                raise ValueError(f"{name!r} is no limit: write ttft, tpot, itl or latency, or a percentile: ttft_p99")
        return limits


MOST_REQUESTS = 1_000_000
"""Of one timed phase."""

ScenarioKind = Literal["offline", "single_stream", "multi_stream", "server", "interactive"]


class ArrivalSpec(Spec):
    """When the requests of an open loop are sent, whatever becomes of them (`domain.arrivals.Arrivals`)."""

    process: Literal["constant", "poisson", "gamma", "burst", "ramp"] = "poisson"
    rate_per_s: Annotated[float, Field(ge=1e-6, le=100_000)]
    """Requests a second on average; of a ramp, its first rate."""
    last_rate_per_s: Annotated[float, Field(ge=1e-6, le=100_000)] | None = None
    """Of a ramp: the rate at its end."""
    cv: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    """Of gamma: standard deviation of the gaps over their mean."""
    burst_size: Annotated[int, Field(ge=1, le=100_000)] = 1
    """Of burst: so many leave at once."""

    @model_validator(mode="after")
    def _is_whole(self) -> ArrivalSpec:
        if (self.process == "ramp") != (self.last_rate_per_s is not None):
            raise ValueError("a ramp, and nothing else, has the rate at its end: last_rate_per_s")
        return self

    @property
    def mean_rate_per_s(self) -> float:
        """Requests a second over the whole."""
        return self.rate_per_s if self.last_rate_per_s is None else (self.rate_per_s + self.last_rate_per_s) / 2


class ScenarioFields(Spec):
    """How requests are driven. `offline` is the accuracy phase: every sample once, resumable at the sample.

    The others are timed, and restart whole: `single_stream` sends when the answer before has come, `multi_stream` does
    so in several loops of their own, `server` sends at instants drawn before, `interactive` asks questions about the
    same pages in one conversation.
    """

    kind: ScenarioKind = "offline"
    in_flight: Annotated[int, Field(ge=1, le=4096)] = 4
    """Closed-loop streams, of which single_stream has one; of server, connections that are ready beforehand."""
    warmup_requests: Annotated[int, Field(ge=0, le=10_000)] = 2
    requests: Annotated[int, Field(ge=1, le=MOST_REQUESTS)] | None = None
    """Bound of a timed phase; None means every sample once, where there is no duration either."""
    duration_s: Annotated[float, Field(gt=0, le=86_400)] | None = None
    """Of server, in place of `requests`: as many as so many seconds hold at the mean rate."""
    arrivals: ArrivalSpec | None = None
    """Of server."""
    baseline_requests: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Of multi_stream: so many requests one after the other, just before, tell what the streams cost each other."""
    turns: Annotated[int, Field(ge=1, le=100)] = 1
    """Of interactive: most questions of one conversation."""
    think_s: Annotated[float, Field(ge=0, le=3600)] = 0.0
    """Of interactive: from the end of an answer to the next question."""
    seed: int = 0
    slo: Slo = Slo()

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if self.kind == "server" and self.arrivals is None:
            raise ValueError("a server scenario needs arrivals, as {rate_per_s: 2}")
        if self.kind != "server" and self.arrivals is not None:
            raise ValueError(f"{self.kind} sends when an answer has come and has no arrivals; server has")
        if self.kind != "multi_stream" and self.baseline_requests:
            raise ValueError(f"{self.kind} has no streams to compare with a baseline; multi_stream has")
        if (self.kind == "interactive") != (self.turns > 1) or (self.think_s and self.kind != "interactive"):
            raise ValueError("interactive, and nothing else, has turns (2 or more) and may have think_s")
        if self.kind == "offline" and self.requests is not None:
            raise ValueError("offline asks every sample once; bound the dataset by its limit instead of requests")
        if self.duration_s is not None and (self.requests is not None or self.arrivals is None):
            raise ValueError("only server has a duration_s, in place of requests")
        if (self.bound or 0) > MOST_REQUESTS:
            raise ValueError(f"{self.bound:,} requests are more than {MOST_REQUESTS:,}; shorten duration_s")
        return self

    @property
    def bound(self) -> int | None:
        """Requests of a timed phase; None means every sample once."""
        if self.duration_s is None or self.arrivals is None:
            return self.requests
        return max(1, round(self.arrivals.mean_rate_per_s * self.duration_s))


class ScenarioSpec(ScenarioFields):
    """A scenario with its name."""

    name: Name = "offline"
    version: str = "1.0.0"

    @property
    def is_timed(self) -> bool:
        """It restarts whole: its phase belongs to the claim that measures it."""
        return self.kind != "offline"

    @property
    def streams(self) -> int:
        """Requests under way at a time; of an open loop, connections that are ready beforehand."""
        return 1 if self.kind == "single_stream" else self.in_flight

    @property
    def in_words(self) -> str:
        """How it sends, as in `an open loop with poisson arrivals at 2 requests per second`."""
        if self.kind == "interactive":
            pauses = f", {self.think_s:g} s between them" if self.think_s else ""
            several = "s" if self.in_flight > 1 else ""
            return f"{self.in_flight} conversation{several} at a time of up to {self.turns} questions{pauses}"
        if self.arrivals is None:
            return f"a closed loop with {self.streams} request{'s' if self.streams > 1 else ''} in flight"
        rate = f"{self.arrivals.rate_per_s:g}"
        if self.arrivals.last_rate_per_s is not None:
            rate += f" to {self.arrivals.last_rate_per_s:g}"
        return f"an open loop with {self.arrivals.process} arrivals at {rate} requests per second"


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
            raise ValueError(f"the rule {self.rule} needs a margin above 0: without one no sample can show it")
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
    prompt: PromptSpec
    metrics: tuple[MetricSpec, ...]
    extractors: Annotated[tuple[ExtractorSpec, ...], Field(min_length=1)] = (ExtractorSpec(),)
    """Every metric is measured with each; the first is the one that tables show."""
    decoding: Decoding = Decoding()
    scenario: ScenarioSpec = ScenarioSpec()
    group_by: tuple[str, ...] = ()
    reports: tuple[Name, ...] = ("markdown", "html", "json", "csv")
    response_format: dict[str, JsonValue] | None = None
    limits: Limits = Limits()
    secrets: tuple[Name, ...] = ()
    """Names only; values live in 0600 files that the worker's supervisor reads."""
    on_model_failure: Literal["zero", "exclude"] = "zero"
    on_invalid: Literal["zero", "exclude"] = "exclude"
    """What an answer counts as in which an extractor finds nothing."""
    reuse: Literal["equal", "answers", "nothing", "cache"] = "equal"
    """What is kept of other runs. `equal`: answers of a parent that are ok, to the same request, by the same target and
    engine, and measures made of the same; `answers`: only those; `cache`: answers of any run of the project too, unless
    they are sampled; or nothing."""
    stop: StopRule | None = None
    """Ends the inference early; every sample is asked without one."""
