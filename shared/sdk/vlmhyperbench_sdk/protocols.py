"""What a plugin implements: Dataset, PromptStrategy, Metric, Backend, ReportWriter. `discovery` finds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.types import JsonObject, JsonValue, Measures, Prompt, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSource:
    """Where and how a dataset is to be read."""

    path: Path | None = None
    """The local folder or file, already synced; None for datasets that are generated."""
    split: str | None = None
    revision: str | None = None
    seed: int = 0
    params: JsonObject = field(default_factory=dict)


@runtime_checkable
class Dataset(Protocol):
    """Yields samples in a stable order; limits, filters and sampling are the platform's work.

    The class is called with one `DatasetSource`; it raises `InvalidInput` for wrong params, `NotFound` for missing
    files.
    """

    def __init__(self, source: DatasetSource) -> None: ...

    def __iter__(self) -> Iterator[Sample]: ...


@runtime_checkable
class PromptStrategy(Protocol):
    """Makes the prompt of a sample; pure: the same sample gives the same prompt, whatever was rendered before it.

    The class is called with keyword params of the prompt's registry entry (none by default).
    """

    def render(self, sample: Sample) -> Prompt:
        """Return the texts that are sent for a sample; its images are sent with them as they are.

        The sample has key, question and metadata. Its references and images are left out: a prompt that could see the
        accepted answers could give them away.

        Raises:
            InvalidInput: the sample lacks what the prompt needs.
        """
        ...


INVALID_ANSWER = "invalid_json"
"""How a metric that reads answers itself begins its reason where it cannot read one."""
INVALID_STATISTIC = "invalid"
"""The statistic by which it says so where it gives such an answer a value all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDescription:
    """What a number means: shown beside it, stored with it, served as machine-readable documentation."""

    name: str
    profile: str
    version: str
    """Semantic version of the definition; another result for the same input is another version."""
    title: str
    kind: Literal["text", "document", "classification", "ordering", "structure", "judge"]
    unit: str
    """`1` for a share."""
    range: tuple[float | None, float | None]
    direction: Literal["higher", "lower"] | None
    """Which end is good; None where nobody says, so that no difference is better or worse."""
    aggregation: Literal["mean", "pooled"]
    """`mean`: the combined value is the mean of the samples' values; `pooled`: it follows from the sums only."""
    proportion: bool
    """Every value is 0 or 1, so that the interval is Wilson's."""
    normaliser: str
    """What is done to the strings before they are compared, in one phrase."""
    formula: str
    source: str
    """Paper with equation or section, or the official script."""


@runtime_checkable
class Metric(Protocol):
    """Scores a batch of any size at once; what it returns for a sample does not depend on the rest.

    The class is called with keyword params of the metric's registry entry (none by default). Where it has several
    profiles, its class attribute `profiles` maps each to what it does, the default first.
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

        Raises nothing for any text: what cannot be scored is unscored with a reason.
        """
        ...

    def combine(self, sums: Mapping[str, float]) -> float | None:
        """The exact value of any group, from the sums of the samples' statistics; None where it is undefined."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLaunch:
    """How to start an engine's server as a child: the gateway runs it, waits for `ready_path` and ends it."""

    argv: tuple[str, ...]
    url: str
    """Base URL of the engine's OpenAI-compatible API, without `/v1`, on loopback."""
    ready_path: str = "/health"
    env: Mapping[str, str] = field(default_factory=dict)
    engine: str = ""
    """Name of the engine, as in manifests."""
    distribution: str = ""
    """The distribution in the engine's environment whose version is the engine's."""
    warmup: JsonObject | None = None
    """A chat body that is sent once before the engine is called ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteEngine:
    """An engine that somebody else runs: nothing to start, its URL is measured."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """Header name → value; secret values come from `LoadRequest.env` and are masked everywhere."""
    engine: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """What a model will need, with its source; the margin is the caller's."""

    device_bytes: int
    host_bytes: int
    source: Literal["static", "dry_run", "measured"]


@runtime_checkable
class Backend(Protocol):
    """An adapter: turns the platform's requests into one engine's. Constructed without arguments; holds no state."""

    @property
    def measured_at(self) -> Literal["engine", "gateway"]:
        """`engine`: the engine's own URL is measured; `gateway`: the engine needs the gateway's help on the way."""
        ...

    def plan_engine(self, load: LoadRequest, *, port: int, python: str) -> EngineLaunch | RemoteEngine:
        """Say how the engine is started; pure.

        `port` is free on loopback; `python` is the interpreter of the engine's own environment.

        Raises:
            InvalidInput: a parameter is unknown or out of range.
            NotFound: a model file is missing.
        """
        ...

    def to_engine(self, request: JsonObject) -> dict[str, JsonValue]:
        """Translate an OpenAI chat request into the body that this engine gets; pure and total.

        A field that is neither OpenAI's nor one that the engine is known to take is refused by name, unless the adapter
        passes everything on to an engine that refuses by itself: `chat.translate` does either.

        Raises:
            InvalidInput: the engine cannot do what the request asks (an unsupported `response_format`, say).
        """
        ...

    def estimate_memory(self, load: LoadRequest) -> MemoryEstimate | None:
        """Estimate what the model will need, or None where nothing is known.

        Used by placement by memory once there is one; until then only the adapters' own tests call it.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenReport:
    """The one file that a report writer makes."""

    content: bytes
    suffix: str
    """How the file's name ends, `.xml`; the platform puts `report.` and the name of the writer's entry before it."""
    media_type: str
    """`application/xml`."""


@runtime_checkable
class ReportWriter(Protocol):
    """Writes a finished report in a form of its own; pure: the same report gives the same bytes.

    The class is called with keyword params of the report's registry entry (none by default).
    """

    def write(self, report: JsonObject) -> WrittenReport:
        """Write what `report.json` holds: its `schema` says which version it is, its `scope` is `run` or `experiment`.

        Raises:
            InvalidInput: the writer cannot write such a report.
        """
        ...
