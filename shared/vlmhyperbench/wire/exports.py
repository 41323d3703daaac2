"""Bodies of exports: runs in the format of another tool, written by the platform."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, model_validator

from vlmhyperbench.domain.base import Refused
from vlmhyperbench.wire.base import Input, Output

MAX_EXPORTED = 100

ExportFormat = Literal["parquet", "jsonl", "lm-eval", "inspect", "hf", "csv"]
ExportState = Literal["QUEUED", "RUNNING", "DONE", "FAILED", "CANCELLED", "EXPIRED"]


class ExportCreate(Input):
    """Request to export finished runs, or all runs of an experiment."""

    format: ExportFormat
    runs: Annotated[list[UUID], Field(max_length=MAX_EXPORTED)] = Field(default_factory=list)
    experiment: UUID | None = None

    @model_validator(mode="after")
    def _names_runs(self) -> ExportCreate:
        if bool(self.runs) == (self.experiment is not None):
            raise Refused("an export is of runs or of an experiment", cure="Give one of the two.")
        return self


class Export(Output):
    """An export; its file is at `/exports/{id}/content` until it expires."""

    id: UUID
    runs: list[UUID]
    format: ExportFormat
    state: ExportState
    done: int
    """Answers that are written."""
    total: int | None
    name: str | None
    size_bytes: int | None
    sha256: str | None
    error: str | None
    """Why it failed."""
    created_by: str
    created_at: datetime
    finished_at: datetime | None
    expires_at: datetime | None
