"""Every table. Rows of these classes stay inside `vlmhyperbench.db`; repositories return frozen dataclasses.

`run_id` leads every large primary key, and no foreign key points onto fact rows: they will be partitioned.
Instants are `timestamptz` by the database's clock; durations and monotonic instants are integers of nanoseconds.
"""

from sqlmodel import SQLModel

from vlmhyperbench.db.tables.facts import ChunkRow, FactRow, KeptFactRow, KeptPhaseRow, MeasureManifestRow
from vlmhyperbench.db.tables.jobs import ClaimRow, DeviceRow, JobRow, ReservationRow, WorkerRow
from vlmhyperbench.db.tables.runs import (
    ApiKeyRow,
    ArtifactRow,
    EventRow,
    ExperimentRow,
    IdempotencyKeyRow,
    PhaseRow,
    RunRow,
    SampleManifestRow,
)

metadata = SQLModel.metadata

__all__ = [
    "ApiKeyRow",
    "ArtifactRow",
    "ChunkRow",
    "ClaimRow",
    "DeviceRow",
    "EventRow",
    "ExperimentRow",
    "FactRow",
    "IdempotencyKeyRow",
    "JobRow",
    "KeptFactRow",
    "KeptPhaseRow",
    "MeasureManifestRow",
    "PhaseRow",
    "ReservationRow",
    "RunRow",
    "SampleManifestRow",
    "WorkerRow",
    "metadata",
]
