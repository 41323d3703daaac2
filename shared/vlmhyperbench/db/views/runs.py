"""Copies of experiments, runs, phases, sample manifests, artifacts, events and API keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar
from uuid import UUID

from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.states import ExperimentState, PhaseState, RunState
from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentView:
    """A matrix that expands to runs."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {"state": ExperimentState}

    id: UUID
    project_id: str
    created_by: str
    name: str
    spec: JsonObject
    spec_digest: str
    traceparent: str | None
    state: ExperimentState
    event_seq: int
    cancel_requested_at: datetime | None
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One target, one task, one scenario."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {"state": RunState}

    id: UUID
    experiment_id: UUID | None
    parent_run_id: UUID | None
    project_id: str
    created_by: str
    name: str
    position: int
    spec: JsonObject
    spec_digest: str
    origins: JsonObject | None
    traceparent: str | None
    state: RunState
    reason: str | None
    priority: int
    is_paused: bool
    is_dirty: bool
    cancel_requested_at: datetime | None
    stop_decision: JsonObject | None
    retunes: tuple[JsonObject, ...] | None
    headline: JsonObject | None
    event_seq: int
    manifest_id: str | None
    examples_id: str | None
    total: int | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    def pinned_spec(self) -> RunSpec:
        """Return the spec as the model that was hashed."""
        return RunSpec.model_validate(self.spec)

    @property
    def in_flight(self) -> int | None:
        """Requests in flight of each shard as a person has changed them; None: as the scenario says."""
        value = self.retunes[-1].get("in_flight") if self.retunes else None
        return value if isinstance(value, int) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleManifestView:
    """A sample manifest, stored by content hash."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    id: str
    dataset_digest: str
    storage_key: str
    size_bytes: int
    samples: int
    unreadable: int
    group_columns: tuple[str, ...]
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseView:
    """A part of a run whose requests are counted or voided together."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {"state": PhaseState}

    run_id: UUID
    no: int
    kind: str
    params: JsonObject
    state: PhaseState
    claim_id: UUID | None
    count: int | None
    opened_at: datetime
    closed_at: datetime | None
    step: int
    counts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactView:
    """A file that a run or an experiment produced."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    id: UUID
    project_id: str
    run_id: UUID | None
    experiment_id: UUID | None
    claim_id: UUID
    kind: str
    name: str
    media_type: str
    storage_key: str
    sha256: str
    size_bytes: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFileView(ArtifactView):
    """A document of a report, with the name of its run or experiment."""

    scope_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """A durable event of one stream."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    stream_id: UUID
    seq: int
    id: UUID
    ts: datetime
    type: str
    project_id: str
    experiment_id: UUID | None
    run_id: UUID | None
    job_id: UUID | None
    stage: str | None
    data: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyView:
    """An API key, without its secret."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    prefix: str
    hmac_sha256: str
    principal: str
    project_id: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    created_by: str | None
    revoked_by: str | None
