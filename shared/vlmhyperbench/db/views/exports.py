"""A copy of an export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportView:
    """An export of runs."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {}

    id: UUID
    project_id: str
    run_ids: tuple[UUID, ...]
    format: str
    state: str
    done: int
    total: int | None
    attempts: int
    claim_id: UUID | None
    lease_until: datetime | None
    name: str | None
    storage_key: str | None
    sha256: str | None
    size_bytes: int | None
    error: str | None
    created_by: str
    created_at: datetime
    finished_at: datetime | None
    expires_at: datetime | None
