"""What a report needs of claims and phases: plain records, cheap to import for whoever reads them."""

from __future__ import annotations

from dataclasses import dataclass, field

from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimEvidence:
    """What one claim recorded of the machine and the engine that answered."""

    id: str
    job: str
    """Kind of the job: `GENERATE`, `SCORE` …"""
    host: str
    machine: JsonObject
    engine: JsonObject | None
    packages: JsonObject
    client: JsonObject | None
    measured_at: str | None
    resources: JsonObject | None = None
    job_id: str = ""
    """Two claims of one job: the first was interrupted."""
    anchor_monotonic_ns: int | None = None
    anchor_wall_ns: int | None = None
    started_at: str = ""
    ended_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseEvidence:
    """A phase of the run, void ones too."""

    no: int
    kind: str
    state: str
    count: int | None
    params: JsonObject = field(default_factory=dict)
