"""The intermediate form of an exported run, the only input of all format writers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vlmhyperbench_sdk.types import JsonObject


def failure_text(code: str | None, error: str | None) -> str:
    """Return an error's message with its code; messages of our own load generator already begin with it."""
    if code and error and error.startswith(f"{code}:"):
        return error
    return ": ".join(part for part in (code, error) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedScore:
    """A number of the report's headline, with its denominators."""

    key: str
    """The metric's name in tables."""
    metric: str
    profile: str
    version: str | None
    value: float | None
    ci_low: float | None
    ci_high: float | None
    n: int | None
    """Number of answers that are part of the value."""
    n_without_value: int | None
    """Number of answers that should be part of the value but have none."""
    invalid: int | None
    """Number of answers that could not be parsed."""
    lower: float | None
    upper: float | None
    """Bounds of the value, whatever the scores of the answers without a value may be."""
    evaluation_id: str | None

    @property
    def _reach(self) -> str:
        if self.lower is not None and self.upper is not None:
            return f", with them it is between {self.lower} and {self.upper}"
        ends = (("at least", self.lower), ("at most", self.upper))
        return next((f", with them it is {word} {end}" for word, end in ends if end is not None), "")

    @property
    def gap(self) -> str:
        """Return a text on answers missing in the value; empty if none is missing or it is unknown."""
        parts = []
        if self.n_without_value:
            parts.append(f"answers without a value: {self.n_without_value}{self._reach}")
        if self.invalid:
            parts.append(f"answers that could not be read: {self.invalid}")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRun:
    """The metadata of an exported run."""

    id: str
    name: str
    state: str
    reason: str | None
    spec: JsonObject
    """The pinned spec; an endpoint's URL is given without user, password and query."""
    spec_digest: str
    parent_run_id: str | None
    model: str
    task: str
    task_version: str
    dataset: str
    decoding: JsonObject
    extractors: tuple[str, ...]
    """Labels of the extractors; tables show the first."""
    headline: tuple[ExportedScore, ...]
    """Empty if the run has no report."""
    requested: int | None
    """Number of counted requests."""
    created_at: str
    started_at: str | None
    finished_at: str | None
    """ISO 8601, in UTC."""
    tool: str
    """Name and version of the exporting program."""

    @property
    def stamp(self) -> str:
        """The end time in a form that is valid in file names."""
        return (self.finished_at or self.created_at).partition("+")[0].rstrip("Z").replace(":", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedMeasure:
    """Per-sample score of one metric with one extractor."""

    key: str
    """The metric's name in tables."""
    metric: str
    profile: str
    version: str | None
    extractor: str
    field: str | None
    """Field of a document, if the metric scores fields separately; None for the whole answer."""
    value: float | None
    outcome: str
    reason: str | None
    is_invalid: bool | None
    """Whether the answer could not be parsed; None if unknown."""
    evaluation_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedExample:
    """An answered question that was sent before the sample's own."""

    key: str
    user_prompt: str
    images: tuple[str, ...]
    """SHA-256 of each."""
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedSample:
    """A counted request with its sample, answer and scores."""

    phase: int
    ordinal: int
    sample: int
    """Index of the sample in the dataset."""
    repeat: int
    key: str
    question: str | None
    system_prompt: str | None
    user_prompt: str | None
    """The prompt as it was sent; None if it is unknown, as for imported answers."""
    references: tuple[str, ...]
    metadata: JsonObject
    images: tuple[str, ...]
    """SHA-256 of each image."""
    status: str
    """`ok`, `error` or `quarantined`."""
    outcome: str
    error_code: str | None
    error: str | None
    finish_reason: str | None
    text: str | None
    reasoning: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    ttft_ms: float | None
    tpot_ms: float | None
    latency_ms: float | None
    measures: tuple[ExportedMeasure, ...]
    examples: tuple[ExportedExample, ...] = ()
    """What was sent before the prompt, in this order."""
    parsed: Mapping[str, str | None] = field(default_factory=dict)
    """Extractor → the parsed answer, None if it could not parse one; without an entry this is unknown."""

    @property
    def asked(self) -> str:
        """The prompt, or the question where the prompt is unknown."""
        return self.user_prompt if self.user_prompt is not None else self.question or ""

    @property
    def failure(self) -> str | None:
        """Reason for a missing answer, or None if there is an answer."""
        return None if self.status == "ok" else failure_text(self.error_code, self.error) or self.status

    @property
    def blamed(self) -> str | None:
        """Cause of a missing answer: `model` or `infrastructure`."""
        if self.failure is None:
            return None
        return "model" if self.outcome == "model_failure" else "infrastructure"

    def whole(self, extractor: str) -> tuple[ExportedMeasure, ...]:
        """Return the scores of the whole answer with this extractor."""
        return tuple(measure for measure in self.measures if measure.field is None and measure.extractor == extractor)
