"""All tables. Rows of these classes are used in `vlmhyperbench.db` only; repositories return frozen dataclasses.

`run_id` is the first column of every large primary key. No foreign key refers to fact rows, which are partitioned by
the hash of their run. Instants are `timestamptz` by the database's clock; durations and monotonic instants are integers
of nanoseconds.
"""

from sqlmodel import SQLModel

from vlmhyperbench.db.tables.access import EndedSessionRow, JoinTokenRow
from vlmhyperbench.db.tables.exports import ExportRow
from vlmhyperbench.db.tables.facts import ChunkRow, FactRow, MeasureManifestRow, ReusedFactRow, ReusedPhaseRow
from vlmhyperbench.db.tables.jobs import ClaimRow, DeviceRow, JobRow, ReservationRow, WorkerRow
from vlmhyperbench.db.tables.listings import RunListingRow, SavedViewRow
from vlmhyperbench.db.tables.placement import DrainRow, HeldModelRow, MemoryEstimateRow, MemoryPeakRow, QuarantineRow
from vlmhyperbench.db.tables.registry import RegistryEntryRow
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
from vlmhyperbench.db.tables.storage import RunTierRow

metadata = SQLModel.metadata

__all__ = [
    "ApiKeyRow",
    "ArtifactRow",
    "ChunkRow",
    "ClaimRow",
    "DeviceRow",
    "DrainRow",
    "EndedSessionRow",
    "EventRow",
    "ExperimentRow",
    "ExportRow",
    "FactRow",
    "HeldModelRow",
    "IdempotencyKeyRow",
    "JobRow",
    "JoinTokenRow",
    "MeasureManifestRow",
    "MemoryEstimateRow",
    "MemoryPeakRow",
    "PhaseRow",
    "QuarantineRow",
    "RegistryEntryRow",
    "ReservationRow",
    "ReusedFactRow",
    "ReusedPhaseRow",
    "RunListingRow",
    "RunRow",
    "RunTierRow",
    "SampleManifestRow",
    "SavedViewRow",
    "WorkerRow",
    "metadata",
]
