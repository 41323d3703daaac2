"""Copies of facts, what is kept of other runs, chunks and measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar
from uuid import UUID

from vlmhyperbench.domain.states import FactStatus
from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class FactView:
    """The row of one request."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {"status": FactStatus}

    run_id: UUID
    phase: int
    ordinal: int
    sample: int
    repeat: int
    turn: int
    member: int
    stream: int
    status: FactStatus
    origin: str
    failure: str | None
    error_code: str | None
    error: str | None
    http_status: int | None
    finish_reason: str | None
    tries: int
    prompt_tokens: int | None
    completion_tokens: int | None
    token_source: str | None
    scheduled_ns: int | None
    sent_ns: int | None
    queue_ns: int | None
    ttft_user_ns: int | None
    ttft_service_ns: int | None
    tpot_ns: float | None
    latency_ns: int | None
    stream_end_ns: int | None
    request_sha256: str
    text_sha256: str | None
    claim_id: UUID
    chunk: int
    row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPhaseView:
    """A phase that is, as a whole, a phase of another run."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    run_id: UUID
    phase: int
    source_run_id: UUID
    source_phase: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFactView:
    """A single row that a child run keeps."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    run_id: UUID
    phase: int
    ordinal: int
    source_run_id: UUID
    source_phase: int
    source_ordinal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkView:
    """What was appended at once, as one Parquet file in storage."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    run_id: UUID
    claim_id: UUID
    phase: int
    no: int
    storage_key: str
    sha256: str
    size_bytes: int
    rows: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureManifestView:
    """One Parquet file of measures."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    run_id: UUID
    claim_id: UUID
    no: int
    job_id: UUID
    storage_key: str
    sha256: str
    size_bytes: int
    rows: int
    metrics: tuple[JsonObject, ...]
    environment: str
    evaluation_id: str | None
    fingerprint: str | None
    created_at: datetime
