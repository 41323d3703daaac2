"""Bodies about where the data of runs is: tiers, moves, restoring, pins and what a policy would do."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from vlmhyperbench.wire.base import Input, Output

TierName = Literal["hot", "warm", "cold"]
RunIds = Annotated[tuple[UUID, ...], Field(min_length=1, max_length=1000)]


class MoveRequest(Input):
    """Request to move finished runs to a tier."""

    run_ids: RunIds
    tier: TierName
    dry_run: bool = False
    """Only say what would be moved."""


class PinRequest(Input):
    """Request to pin runs, so that they are never deleted, or to unpin them."""

    run_ids: RunIds
    is_pinned: bool = True


class StoredRun(Output):
    """Where the data of a run is."""

    run_id: UUID
    name: str
    state: str
    finished_at: datetime | None
    tier: TierName
    wanted: TierName | None
    """Tier to which it is being moved because somebody asked for it."""
    next: TierName | None
    """Tier to which it moves at the next look, asked for or by the policy."""
    kept_because: str | None
    """Why it is not deleted; None: the policy deletes it."""
    is_pinned: bool
    rows: int
    """Rows that left Postgres."""
    size_bytes: int
    """Size of its payloads, of the file of its rows, or of its archive."""
    moved_at: datetime | None
    error: str | None
    """Why its last move failed."""


class TierTotal(Output):
    """The finished runs of one tier."""

    tier: TierName
    runs: int
    rows: int
    """Rows that left Postgres."""
    size_bytes: int


class StorageStatus(Output):
    """The finished runs of each tier, and the policy."""

    tiers: list[TierTotal]
    warm_after_days: float
    cold_after_days: float
    restored_days: float
    delete_after_days: float | None
