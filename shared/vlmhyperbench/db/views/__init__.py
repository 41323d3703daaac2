"""What repositories return: frozen copies of rows, with the names of the columns as fields."""

from vlmhyperbench.db.views.access import JoinTokenView
from vlmhyperbench.db.views.copying import View, view_of
from vlmhyperbench.db.views.exports import ExportView
from vlmhyperbench.db.views.facts import (
    ChunkView,
    FactView,
    MeasureManifestView,
    NewChunk,
    NewFact,
    ReusedFactView,
    ReusedPhaseView,
)
from vlmhyperbench.db.views.jobs import ClaimView, CurrentJobView, DeviceView, JobView, ReservationView, WorkerView
from vlmhyperbench.db.views.listings import RunListingView, SavedViewView
from vlmhyperbench.db.views.placement import (
    DrainView,
    HeldModelView,
    MemoryEstimateView,
    MemoryPeakView,
    QuarantineView,
)
from vlmhyperbench.db.views.registry import RegistryEntryView
from vlmhyperbench.db.views.runs import (
    ApiKeyView,
    ArtifactView,
    EventView,
    ExperimentView,
    PhaseView,
    ReportFileView,
    RunView,
    SampleManifestView,
)
from vlmhyperbench.db.views.storage import RunTierView

__all__ = [
    "ApiKeyView",
    "ArtifactView",
    "ChunkView",
    "ClaimView",
    "CurrentJobView",
    "DeviceView",
    "DrainView",
    "EventView",
    "ExperimentView",
    "ExportView",
    "FactView",
    "HeldModelView",
    "JobView",
    "JoinTokenView",
    "MeasureManifestView",
    "MemoryEstimateView",
    "MemoryPeakView",
    "NewChunk",
    "NewFact",
    "PhaseView",
    "QuarantineView",
    "RegistryEntryView",
    "ReportFileView",
    "ReservationView",
    "ReusedFactView",
    "ReusedPhaseView",
    "RunListingView",
    "RunTierView",
    "RunView",
    "SampleManifestView",
    "SavedViewView",
    "View",
    "WorkerView",
    "view_of",
]
