"""One answered sample as the API shows it: no images and no base64 in lists."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from pydantic import JsonValue

from vlmhyperbench.wire.base import Output

SampleOutcome = Literal["answered", "model_failure", "infrastructure_failure"]
"""Of a request: answered (and so scored), failed by the model, or by what carries it (never scored zero)."""


class MeasureValue(Output):
    """What one metric says of one answer: a value, or why there is none."""

    metric: str
    profile: str = ""
    extractor: str = ""
    """What read the answer for it."""
    evaluation_id: str | None = None
    """Short id of everything that decides the number."""
    value: float | None
    outcome: str
    reason: str | None = None
    field: str | None = None


class Result(Output):
    """A fact, its sample, its answer and its measures."""

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
    """SHA-256 of each."""
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
    """From the scheduled instant, as latency."""
    tpot_ms: float | None
    latency_ms: float | None
    measures: list[MeasureValue]
