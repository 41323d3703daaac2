"""Response body of a per-sample result; images are given by hash, so that lists hold no base64."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from pydantic import Field, JsonValue

from vlmhyperbench.wire.base import Output

SampleOutcome = Literal["answered", "model_failure", "infrastructure_failure"]
"""Outcome of a request: answered (and therefore scored), failed by the model, or by infrastructure (never scored 0)."""


class MeasureValue(Output):
    """Per-sample score of one metric: a value, or the reason why there is none."""

    metric: str
    profile: str = ""
    extractor: str = ""
    """Extractor that parsed the answer for the metric."""
    evaluation_id: str | None = None
    """Short id of the evaluation identity: everything that determines the number."""
    value: float | None
    outcome: str
    reason: str | None = None
    field: str | None = None


class DamagedFile(Output):
    """A stored file that is missing or was changed, so that a part of a result cannot be read."""

    holds: Literal["answer", "scores"]
    """`answer`: `text`, `reasoning` and `error` of the result are missing; `scores`: some of its `measures`."""
    key: str
    """Key of the file in storage, which begins with the run that wrote it."""
    message: str
    cure: str


class ShownExample(Output):
    """An answered question that was sent before the sample's own."""

    key: str
    user_prompt: str
    images: list[str]
    """SHA-256 of each."""
    answer: str


class SentPrompt(Output):
    """What was sent for a sample, after rendering."""

    system_prompt: str | None
    user_prompt: str
    examples: list[ShownExample] = Field(default_factory=list)


class Result(Output):
    """A request record with its sample, answer and scores."""

    run_id: UUID
    phase: int
    ordinal: int
    sample: int
    repeat: int
    key: str | None
    question: str | None
    references: list[str]
    group: dict[str, JsonValue]
    """Group columns of the sample manifest: `doc_class`, `question_type`, …"""
    images: list[str]
    """SHA-256 of each image."""
    status: Literal["ok", "error", "quarantined"]
    outcome: SampleOutcome
    error_code: str | None
    error: str | None
    finish_reason: str | None
    text: str | None
    reasoning: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    ttft_ms: float | None
    """Time to first token, measured from the scheduled instant, as latency is."""
    tpot_ms: float | None
    latency_ms: float | None
    is_combined: bool = False
    """Whether a pipeline's models gave it: its latency is then their time on the critical path, without waiting and
    loading, and its tokens are the sums of theirs."""
    vram_peak_mb: float | None = None
    """Peak memory of the accelerators during the request, of all requests in flight, in units of 1,048,576 bytes."""
    vram_delta_mb: float | None = None
    """Its rise from the last sample before the request; null without an accelerator that says it."""
    measures: list[MeasureValue]
    prompt: SentPrompt | None = None
    """Only if `prompts` asks for it; null too where no prompt is stored, as for imported answers."""
    damaged: list[DamagedFile] = Field(default_factory=list)
    """Files of this result that cannot be read; empty if the result is complete."""
