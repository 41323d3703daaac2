"""Protocols of plugins, found by `discovery`: Dataset, PromptStrategy, Metric, Backend, ReportWriter, Aggregation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from vlmhyperbench_sdk.aggregation import NO_CONTEXT, Aggregated, AggregationContext, MemberAnswer
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.types import JsonObject, JsonValue, Measures, Prompt, Sample

LOOPBACK = "127.0.0.1"
"""Where an engine listens that runs on this machine without a network of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSource:
    """Where and how to read a dataset."""

    path: Path | None = None
    """The local folder or file, already synced; None for generated datasets."""
    split: str | None = None
    revision: str | None = None
    seed: int = 0
    params: JsonObject = field(default_factory=dict)


@runtime_checkable
class Dataset(Protocol):
    """Yields samples in a stable order; the platform applies limits, filters and sampling.

    The class is called with one `DatasetSource`; it raises `InvalidInput` for wrong params, `NotFound` for missing
    files.
    """

    def __init__(self, source: DatasetSource) -> None: ...

    def __iter__(self) -> Iterator[Sample]: ...


@runtime_checkable
class PromptStrategy(Protocol):
    """Renders the prompt of a sample; pure: the prompt depends on the sample only, not on earlier samples.

    The class is called with keyword params of the prompt's registry entry (none by default).
    """

    def render(self, sample: Sample) -> Prompt:
        """Return the texts to send for a sample; its images are sent with them unchanged.

        The sample has key, question and metadata. Its references and images are removed: a prompt that could read the
        accepted answers could leak them.

        Raises:
            InvalidInput: the sample lacks what the prompt needs.
        """
        ...


INVALID_ANSWER = "invalid_json"
"""Prefix of the reason that a metric which parses answers itself gives for an answer that it cannot parse."""
INVALID_STATISTIC = "invalid"
"""Statistic by which such a metric marks an unparsable answer to which it still gives a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDescription:
    """Definition of a metric: shown and stored with its values, and served as machine-readable documentation."""

    name: str
    profile: str
    version: str
    """Semantic version of the definition; it changes whenever the same input gives another result."""
    title: str
    kind: Literal["text", "document", "classification", "ordering", "structure", "judge"]
    unit: str
    """`1` for a share."""
    range: tuple[float | None, float | None]
    direction: Literal["higher", "lower"] | None
    """Which values are better; None if undefined, so that no difference counts as better or worse."""
    aggregation: Literal["mean", "pooled"]
    """`mean`: the combined value is the mean of the per-sample values; `pooled`: it is computed from the sums."""
    proportion: bool
    """Whether every value is 0 or 1, so that the Wilson interval is used."""
    normaliser: str
    """Normalisation of the strings before they are compared, in one phrase."""
    formula: str
    source: str
    """Paper with equation or section, or the official implementation."""


@runtime_checkable
class Metric(Protocol):
    """Scores a batch of any size; a sample's score does not depend on the rest of the batch.

    The class is called with keyword params of the metric's registry entry (none by default). Where it has several
    profiles, its class attribute `profiles` maps each to its description, the default profile first.
    """

    @property
    def description(self) -> MetricDescription: ...

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,
    ) -> Measures:
        """Score predictions against their accepted answers; all three of shape (samples,).

        It never raises for any text: a prediction that cannot be scored is unscored, with a reason.
        """
        ...

    def combine(self, sums: Mapping[str, float]) -> float | None:
        """Return the exact value of a group from the sums of its samples' statistics; None if undefined."""
        ...


@runtime_checkable
class ComparesTexts(Protocol):
    """A metric that can show texts as it compares them; optional, for readers of single samples."""

    def compared(self, texts: Sequence[str]) -> list[str]:
        """Return a prediction and its references, in this order, after the metric's normalisation. Shape as `texts`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLaunch:
    """How to start an engine's server as a child process; the gateway runs it, waits for `ready_path` and ends it."""

    argv: tuple[str, ...]
    url: str
    """Base URL of the engine's OpenAI-compatible API, without `/v1`, on the host of `plan_engine`."""
    ready_path: str = "/health"
    env: Mapping[str, str] = field(default_factory=dict)
    engine: str = ""
    """Name of the engine, as in manifests."""
    distribution: str = ""
    """Distribution in the engine's environment whose version is recorded as the engine's version."""
    warmup: JsonObject | None = None
    """A chat body that is sent once before the engine counts as ready."""
    tried: tuple[str, ...] = ()
    """Versions of the engine with which the adapter was tried, each with all that begin with it and a dot; any other
    version gives a warning. Empty: no version does."""
    warnings: tuple[str, ...] = ()
    """What a reader of the answers and times should know of this way to start it; reports show it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteEngine:
    """An engine that runs elsewhere: nothing is started, and its URL is measured."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """Header name → value; secret values come from `LoadRequest.env` and are masked everywhere."""
    engine: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """Estimated memory of a model with its source. A load that needs more than is free is refused."""

    device_bytes: int
    """Memory of accelerators, in all."""
    host_bytes: int
    source: Literal["static", "dry_run", "measured", "declared"]
    """`declared`: of an engine that only stands for one, so that no load is refused for it."""
    knobs: tuple[str, ...] = ()
    """Parameters of the engine that change the need, named where it does not fit."""
    parts: Mapping[str, int] = field(default_factory=dict)
    """What the bytes are of, such as `weights`, `KV cache` and `vision tower`, on accelerators and host together."""
    device_share: float | None = None
    """Share of each accelerator that the engine takes whatever it needs; None: it takes what it needs."""
    min_device_bytes: int | None = None
    min_host_bytes: int | None = None
    """What the smallest load without a loss of quality needs; None: only the load as it is wanted is possible."""


@runtime_checkable
class Backend(Protocol):
    """An adapter: translates the platform's requests for one engine. Constructed without arguments; stateless."""

    @property
    def measured_at(self) -> Literal["engine", "gateway"]:
        """`engine`: the engine's own URL is measured; `gateway`: requests must pass through the gateway."""
        ...

    def plan_engine(
        self, load: LoadRequest, *, port: int, python: str, host: str = LOOPBACK
    ) -> EngineLaunch | RemoteEngine:
        """Return how to start or reach the engine; pure.

        `python` is the interpreter of the engine's own environment. The engine must listen on `host` only, at `port`:
        on loopback, or on the address of the container in which it runs.

        Raises:
            InvalidInput: a parameter is unknown or out of range.
            NotFound: a model file is missing.
        """
        ...

    def to_engine(self, request: JsonObject) -> dict[str, JsonValue]:
        """Translate an OpenAI chat request into the body for this engine; pure and total.

        A field that neither OpenAI defines nor the engine is known to accept is refused by name, unless the adapter
        passes all fields on to an engine that refuses unknown ones itself; `chat.translate` supports both.

        Raises:
            InvalidInput: the engine does not support the request (such as an unsupported `response_format`).
        """
        ...

    def estimate_memory(self, load: LoadRequest) -> MemoryEstimate | None:
        """Estimate the memory that the model needs; None if unknown.

        `vlmhyperbench models estimate` shows it, and a gateway refuses a load that needs more than is free: where the
        need is uncertain, return the lower bound.

        Raises:
            InvalidInput: a parameter is unknown or out of range.
            NotFound: a model file is missing.
        """
        ...


@runtime_checkable
class DryRunBackend(Backend, Protocol):
    """A backend whose engine can say what a load would take, without loading."""

    def dry_run(self, load: LoadRequest, *, python: str) -> MemoryEstimate:
        """Return what the engine itself states; `python` is the interpreter of the engine's environment.

        Raises:
            InvalidInput: a parameter is unknown or out of range.
            NotFound: a model file is missing.
            Unavailable: the engine is not installed, or its dry run fails.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadKnobs:
    """Which parameters of an engine change the memory of a load, by what they mean, and their effective values."""

    names: Mapping[str, Sequence[str]]
    """What is meant → parameters of the engine that set it: `context_tokens`, `parallel`, `ubatch`, `gpu_layers`,
    `cache_type`, `image_tokens`, and `projector_on_device` (`on` or `off`)."""
    values: Mapping[str, int | float | str]
    """Every parameter of the engine, given or default."""
    layers: int
    image_tokens: int | None = None
    """Maximum number of tokens of one image; None if that is not known."""
    min_image_tokens: int | None = None
    """Least to which the parameter may limit them; None where it has no effect on this model."""
    projector_on_device: bool = False
    """Whether an image projector is loaded on an accelerator."""


@runtime_checkable
class FittingBackend(Backend, Protocol):
    """A backend whose loads can be made smaller step by step, because it estimates every buffer."""

    def knobs(self, load: LoadRequest) -> LoadKnobs | None:
        """Return what can be changed; None if nothing is known of the model.

        Raises:
            InvalidInput: a parameter is unknown or out of range.
            NotFound: a model file is missing.
        """
        ...

    def estimate_whole(self, load: LoadRequest) -> MemoryEstimate | None:
        """Estimate the memory with the buffers in which the engine computes; None if unknown.

        Raises:
            InvalidInput: a parameter is unknown or out of range.
            NotFound: a model file is missing.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenReport:
    """The file that a report writer produces."""

    content: bytes
    suffix: str
    """Suffix of the file name, such as `.xml`; it follows `report.` and the name of the writer's registry entry."""
    media_type: str
    """Media type, such as `application/xml`."""


@runtime_checkable
class ReportWriter(Protocol):
    """Writes a finished report in another format; pure: the same report gives the same bytes.

    The class is called with keyword params of the report's registry entry (none by default).
    """

    def write(self, report: JsonObject) -> WrittenReport:
        """Write the content of `report.json`, whose `schema` is its version and whose `scope` is `run` or `experiment`.

        Raises:
            InvalidInput: the writer does not support this report.
        """
        ...


@runtime_checkable
class Aggregation(Protocol):
    """Makes one answer of several; pure, so that it is replayed from stored answers.

    The class is called with the keyword params of the pipeline's stage.
    """

    def aggregate(self, members: Sequence[MemberAnswer], context: AggregationContext = NO_CONTEXT) -> Aggregated:
        """Aggregate the answers of the members, in the order of the pipeline.

        It never raises for any text of a member.
        """
        ...
