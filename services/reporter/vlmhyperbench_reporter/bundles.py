"""What the worker hands to the child that makes a report, and gets back: values only, cheap to import and to pickle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import polars

from vlmhyperbench.domain.states import RunState
from vlmhyperbench.summaries.records import ClaimEvidence, JudgeUse, PhaseEvidence, TokenEvents
from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureFile:
    """One Parquet file of measures, as SCORE wrote it, with what it is keyed by."""

    identity: JsonObject
    environment: str
    evaluation_id: str | None
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBundle:
    """A run as it lies in database and storage."""

    id: str
    name: str
    state: RunState
    reason: str | None
    spec: JsonObject
    spec_digest: str
    total: int | None
    manifest_id: str | None
    samples: int | None
    unreadable: int
    facts: polars.DataFrame
    measures: tuple[MeasureFile, ...]
    claims: tuple[ClaimEvidence, ...]
    phases: tuple[PhaseEvidence, ...]
    created_at: str
    started_at: str
    finished_at: str
    parent_run_id: str | None
    left_out: int
    differing: int
    stopping: JsonObject | None
    judged: tuple[JudgeUse, ...]
    platform_version: str
    events: TokenEvents | None = None
    alone: polars.DataFrame | None = None
    summary: bytes | None = None
    """The stored `summary.json` of its newest report; None where it has none yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A report whose pictures of pages are still to come."""

    images: tuple[str, ...]
    """Content hashes of the pages that it wants to show."""
    content: bytes
    """The rest, pickled: only a child opens it, since what is inside needs libraries that a worker does without."""
    headline: JsonObject | None = None
    """The scores that are kept with a run, for lists; a comparison has none of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFile:
    """One file of a report."""

    name: str
    kind: Literal["report", "table", "summary"]
    media_type: str
    content: bytes
