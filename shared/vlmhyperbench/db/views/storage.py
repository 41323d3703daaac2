"""A copy of the tier of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar
from uuid import UUID

from vlmhyperbench.domain.tiers import Tier
from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTierView:
    """Where the rows of a run are; a run that never moved has none."""

    ENUMS: ClassVar[Mapping[str, type[StrEnum]]] = {"tier": Tier}

    run_id: UUID
    tier: Tier
    is_pinned: bool
    pinned_by: str | None
    rows: int
    counts: tuple[JsonObject, ...]
    failures: tuple[JsonObject, ...]
    facts_key: str | None
    facts_sha256: str | None
    facts_bytes: int | None
    archive_key: str | None
    archive_sha256: str | None
    archive_bytes: int | None
    has_loose_files: bool
    wanted: str | None
    wanted_by: str | None
    wanted_at: datetime | None
    error: str | None
    error_at: datetime | None
    moved_at: datetime | None
    restored_at: datetime | None
