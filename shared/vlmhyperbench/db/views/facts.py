"""Copies of facts, reused facts and phases, chunks and measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Literal
from uuid import UUID

from vlmhyperbench.domain.failures import Failure
from vlmhyperbench.domain.states import FactStatus
from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFact:
    """The row of one request, to be appended; run, phase, claim and chunk follow from where it is appended."""

    ordinal: int
    row: int
    """Row in the file of the chunk."""
    sample: int
    status: FactStatus
    request_sha256: str
    repeat: int = 0
    turn: int = 0
    member: int = 0
    stream: int = 0
    origin: Literal["live", "cached", "imported", "combined"] = "live"
    failure: Failure | None = None
    error_code: str | None = None
    error: str | None = None
    http_status: int | None = None
    finish_reason: str | None = None
    tries: int = 1
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    token_source: str | None = None
    scheduled_ns: int | None = None
    sent_ns: int | None = None
    queue_ns: int | None = None
    ttft_user_ns: int | None = None
    ttft_service_ns: int | None = None
    tpot_ns: float | None = None
    latency_ns: int | None = None
    stream_end_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FactView(NewFact):
    """The row of one request, with where it was measured."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {"status": FactStatus}

    run_id: UUID
    phase: int
    claim_id: UUID
    chunk: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReusedPhaseView:
    """A phase whose rows are, as a whole, those of a phase of another run."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    run_id: UUID
    phase: int
    source_run_id: UUID
    source_phase: int
    rows: int
    """Number of rows of the source phase."""
    failed: int
    """Number of those rows that are not `ok`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReusedFactView:
    """A single row that a run reuses."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    run_id: UUID
    phase: int
    ordinal: int
    source_run_id: UUID
    source_phase: int
    source_ordinal: int
    is_ok: bool
    """Whether the row's status is `ok`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewChunk:
    """The manifest of a Parquet file that is already in storage, under a key of its claim."""

    phase: int
    no: int
    """Number among the chunks of its claim and phase."""
    storage_key: str
    sha256: str
    size_bytes: int
    rows: int
    """Number of rows of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkView(NewChunk):
    """The manifest of a chunk, with the claim that wrote it."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    run_id: UUID
    claim_id: UUID
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureManifestView:
    """The manifest of one Parquet file of measures."""

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
