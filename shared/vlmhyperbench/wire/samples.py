"""Bodies of a run's samples: rows of at most a kilobyte for lists, and everything about one sample."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from pydantic import Field, JsonValue

from vlmhyperbench.wire.base import Output
from vlmhyperbench.wire.results import Result, SampleOutcome, ShownExample

Flip = Literal["broke", "mended", "both_right", "both_wrong"]
"""An answer against that of a baseline, by the primary metric: `broke` was right in the baseline and is wrong here."""

PREVIEW_CHARACTERS = 140


class SampleRow(Output):
    """A request of a run as lists show it; its texts are cut to `PREVIEW_CHARACTERS`."""

    id: str
    """`<phase>.<ordinal>`: its address in this run."""
    key: str | None
    repeat: int
    question: str | None
    text: str | None
    group: dict[str, str | None]
    """Group columns of the sample, of which values are cut to 40 characters."""
    image: str | None
    """SHA-256 of its first image."""
    images: int
    status: Literal["ok", "error", "quarantined"]
    outcome: SampleOutcome
    error_code: str | None
    value: float | None
    """Value of the primary metric."""
    is_wrong: bool | None
    """Whether the answer has a value below that of a right answer; None without a value or a right one."""
    flip: Flip | None
    """None without `against`, or where one of the runs has no value."""
    latency_ms: float | None
    completion_tokens: int | None


class SamplePage(Output):
    """A page of a run's samples."""

    items: list[SampleRow]
    next: str | None = None
    matching: int | None
    """Number of samples that pass the filters; None where they were not counted."""
    total: int | None
    """Number of the run's counted requests."""
    columns: list[str]
    """Columns by which they are filtered and ordered."""


class ParsedAnswer(Output):
    """What an extractor read from the answer: the text that the metrics compare with the references."""

    extractor: str
    text: str | None
    """None if it could not parse the answer."""
    reason: str | None = None


class ComparedTexts(Output):
    """The texts that a metric compared, after its normalisation."""

    answer: str
    references: list[str]
    is_cut: bool
    """Whether a text is longer than what is shown of it."""


class MetricTrace(Output):
    """How one metric came to its value."""

    metric: str
    label: str
    profile: str
    extractor: str
    evaluation_id: str | None
    value: float | None
    outcome: str
    reason: str | None
    is_invalid: bool
    low: float | None
    """Ends of the metric's scale, `low` and `high`; None where it is open, or the metric is not installed here."""
    high: float | None
    direction: Literal["higher", "lower"] | None
    normaliser: str | None
    """Normalisation of the strings before they are compared."""
    formula: str | None
    compared: ComparedTexts | None
    """None where the metric does not compare texts, is not installed here, or the answer could not be parsed."""
    statistics: dict[str, float]
    """Additive statistics of the answer, from which a group's value is computed."""


class RequestTiming(Output):
    """When what happened to the request, in milliseconds since it was scheduled; None where it was not measured."""

    queue_ms: float | None
    """Until it was sent."""
    ttft_ms: float | None
    """Until the first token."""
    latency_ms: float | None
    """Until the last token."""
    stream_end_ms: float | None
    tpot_ms: float | None
    events: int
    """Number of token-bearing events."""
    events_ms: list[float]
    """When the first of them came, at most 2,000."""
    event_tokens: list[int]
    """Output tokens in each of those."""


class SampleNeighbours(Output):
    """Addresses of samples near this one, in the order of the run and under the same filters."""

    previous: str | None = None
    next: str | None = None
    next_error: str | None = None
    next_wrong: str | None = None
    next_flip: str | None = None


class MemberAnswer(Output):
    """What a model of a pipeline answered to a sample in one of its stages."""

    stage: str
    role: str
    model: str
    text: str | None
    """None where it was not asked, or gave no answer."""
    error: str | None
    latency_ms: float | None
    prompt_tokens: int | None
    completion_tokens: int | None
    is_reused: bool


class SampleDetail(Output):
    """One request of a run with everything that was recorded about it."""

    id: str
    result: Result
    metadata: dict[str, JsonValue]
    system_prompt: str | None
    """The prompt as it was sent, after rendering."""
    user_prompt: str | None
    examples: list[ShownExample] = Field(default_factory=list)
    sent_images: list[str]
    parsed: list[ParsedAnswer]
    traces: list[MetricTrace]
    timing: RequestTiming
    pipeline: dict[str, JsonValue] | None = None
    """How a pipeline came to the answer: its stages with votes, members, times and tokens."""
    members: list[MemberAnswer] = Field(default_factory=list)
    """What each model of the pipeline answered to this sample, in the order of its steps."""
    tries: int
    """How often it was sent."""
    http_status: int | None
    measured_by: UUID
    """The run that measured it: another one where the row is reused."""
    claim_id: UUID
    flip: Flip | None = None
    neighbours: SampleNeighbours


class SampleFacet(Output):
    """A group column with how many samples have each of its values."""

    column: str
    values: dict[str, int]
    is_cut: bool = Field(default=False)
    """Whether it has more values than are listed."""
