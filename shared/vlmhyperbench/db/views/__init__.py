"""What repositories return: frozen copies of rows, with the columns' names."""

from vlmhyperbench.db.views.copying import View, view_of
from vlmhyperbench.db.views.facts import ChunkView, FactView, KeptFactView, KeptPhaseView, MeasureManifestView
from vlmhyperbench.db.views.jobs import ClaimView, DeviceView, JobView, ReservationView, WorkerView
from vlmhyperbench.db.views.runs import (
    ApiKeyView,
    ArtifactView,
    EventView,
    ExperimentView,
    PhaseView,
    RunView,
    SampleManifestView,
)

__all__ = [
    "ApiKeyView",
    "ArtifactView",
    "ChunkView",
    "ClaimView",
    "DeviceView",
    "EventView",
    "ExperimentView",
    "FactView",
    "JobView",
    "KeptFactView",
    "KeptPhaseView",
    "MeasureManifestView",
    "PhaseView",
    "ReservationView",
    "RunView",
    "SampleManifestView",
    "View",
    "WorkerView",
    "view_of",
]
