"""The one form in which a finished run leaves the platform: every writer of a format reads it, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vlmhyperbench_sdk.types import JsonObject

NOT_STORED = "the answer is not stored any more"


def failure_text(code: str | None, error: str | None) -> str:
    """Say a failure with its code, once: what our own load generator says begins with it."""
    if code and error and error.startswith(f"{code}:"):
        return error
    return ": ".join(part for part in (code, error) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedScore:
    """A number of the report's headline, with what stands in its denominator."""

    key: str
    """How tables name the metric."""
    metric: str
    profile: str
    version: str | None
    value: float | None
    ci_low: float | None
    ci_high: float | None
    n: int | None
    """Answers that are in the value."""
    n_without_value: int | None
    """Answers that should be in it and have no value."""
    invalid: int | None
    """Answers out of which nothing could be read."""
    lower: float | None
    upper: float | None
    """What the value would be at least and at most if the answers without a value had one."""
    evaluation_id: str | None

    @property
    def _reach(self) -> str:
        if self.lower is not None and self.upper is not None:
            return f", with them it is between {self.lower} and {self.upper}"
        ends = (("at least", self.lower), ("at most", self.upper))
        return next((f", with them it is {word} {end}" for word, end in ends if end is not None), "")

    @property
    def gap(self) -> str:
        """Say what is missing in the value; empty where nothing is, or nobody can say that something is."""
        parts = []
        if self.n_without_value:
            parts.append(f"answers without a value: {self.n_without_value}{self._reach}")
        if self.invalid:
            parts.append(f"answers that could not be read: {self.invalid}")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRun:
    """What is said once of a run."""

    id: str
    name: str
    state: str
    reason: str | None
    spec: JsonObject
    """The pinned spec; an endpoint's address without user, password and query."""
    spec_digest: str
    parent_run_id: str | None
    model: str
    task: str
    task_version: str
    dataset: str
    decoding: JsonObject
    extractors: tuple[str, ...]
    """Labels; the first is the one that tables show."""
    headline: tuple[ExportedScore, ...]
    """Empty where the run has no report."""
    requested: int | None
    """Requests that count."""
    created_at: str
    started_at: str | None
    finished_at: str | None
    """ISO 8601, UTC."""
    tool: str
    """Name and version of what exports."""

    @property
    def stamp(self) -> str:
        """When it ended, fit for a file's name."""
        return (self.finished_at or self.created_at).partition("+")[0].rstrip("Z").replace(":", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedMeasure:
    """What one metric says of one answer, read by one extractor."""

    key: str
    """How tables name the metric."""
    metric: str
    profile: str
    version: str | None
    extractor: str
    field: str | None
    """Of a document, where the metric measures fields one by one; None is the whole answer."""
    value: float | None
    outcome: str
    reason: str | None
    is_invalid: bool | None
    """Whether nothing could be read out of the answer; None where the platform does not say so."""
    evaluation_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedSample:
    """One request that counts: what was asked, what came back, what it is worth."""

    phase: int
    ordinal: int
    sample: int
    """Place of the sample in the dataset."""
    repeat: int
    key: str
    question: str | None
    system_prompt: str | None
    user_prompt: str | None
    """What was sent, as far as it follows from the question alone."""
    references: tuple[str, ...]
    metadata: JsonObject
    images: tuple[str, ...]
    """SHA-256 of each."""
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
    parsed: Mapping[str, str | None] = field(default_factory=dict)
    """By extractor: what it reads out of the text, None for nothing; without an entry nobody knows."""

    @property
    def failure(self) -> str | None:
        """Why there is no answer, or None where there is one."""
        if self.status == "ok":
            return None if self.text is not None else NOT_STORED
        return failure_text(self.error_code, self.error) or self.status

    @property
    def blamed(self) -> str | None:
        """Whose failure it is that there is no answer: the `model`'s, or that of the `infrastructure`."""
        if self.failure is None:
            return None
        return "model" if self.outcome == "model_failure" else "infrastructure"

    def whole(self, extractor: str) -> tuple[ExportedMeasure, ...]:
        """Measures of the whole answer, read by this extractor."""
        return tuple(measure for measure in self.measures if measure.field is None and measure.extractor == extractor)
