"""Response bodies of artifacts and reports; an artifact's bytes are served by `/artifacts/{id}/content`."""

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
    """Key of the file in storage; clients with access to the storage need no download."""
    size_bytes: int
    sha256: str
    created_at: datetime


class ReportFile(Artifact):
    """A document of a report in a list."""

    scope_name: str
    """Name of its run or experiment."""


class Report(Output):
    """The newest report of a run or experiment: its files and its headline."""

    scope: Literal["run", "experiment"]
    id: UUID
    headline: JsonValue | None = None
    files: list[Artifact]
