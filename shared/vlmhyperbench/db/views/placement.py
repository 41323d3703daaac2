"""Copies of what targets need of devices, and of what is drained or in quarantine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar
from uuid import UUID

from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimateView:
    """The memory that a target's adapter estimates."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    target_digest: str
    device_bytes: int
    host_bytes: int
    device_share: float | None
    knobs: tuple[str, ...]
    min_device_bytes: int | None
    min_host_bytes: int | None
    estimated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPeakView:
    """The most memory that a loaded target has used on one device."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    target_digest: str
    device_name: str
    bytes: int
    measured_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldModelView:
    """A model that a user has asked to load or to unload."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    project_id: str
    name: str
    target: JsonObject
    target_digest: str
    wanted: str
    state: str
    reason: str | None
    shortage: JsonObject | None
    worker_id: UUID | None
    is_pinned: bool
    asked_by: str
    asked_at: datetime
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainView:
    """A worker, a device or a machine that was or is drained."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    id: UUID
    scope: str
    name: str
    reason: str
    drained_by: str
    drained_at: datetime
    resumed_by: str | None
    resumed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineView:
    """A device that is or was in quarantine."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    id: UUID
    device: str
    device_name: str
    worker: str
    host: str
    reason: str
    since: datetime
    released_by: str | None
    released_at: datetime | None
