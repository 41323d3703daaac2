"""Artifacts and reports as the API shows them; the bytes come from `/artifacts/{id}/content`."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import JsonValue

from vlmhyperbench.wire.base import Output


class Artifact(Output):
    """A file that a run or an experiment produced."""

    id: UUID
    run_id: UUID | None
    experiment_id: UUID | None
    kind: str
    name: str
    media_type: str
    storage_key: str
    """Where it lies in the storage: who has that at hand needs no download."""
    size_bytes: int
    sha256: str
    created_at: datetime


class Report(Output):
    """The newest report of a run or experiment: its files, and its headline."""

    scope: Literal["run", "experiment"]
    id: UUID
    headline: JsonValue | None = None
    files: list[Artifact]
