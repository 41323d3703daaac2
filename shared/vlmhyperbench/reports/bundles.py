"""What a report is made of and what comes of it: values that are cheap to import and to pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import polars

from vlmhyperbench.domain.pipelines import Key
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.scoring.combining import Asked
from vlmhyperbench.scoring.metrics import Hosts
from vlmhyperbench.summaries.records import ClaimEvidence, JudgeUse, PhaseEvidence, TokenEvents
from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureFile:
    """A Parquet file of per-sample scores, as SCORE wrote it, with the identity of its metric."""

    identity: JsonObject
    environment: str
    evaluation_id: str | None
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRows:
    """The rows of the phases of a pipeline's models."""

    facts: polars.DataFrame
    """Rows of `facts.read` of all these phases, without those for which nothing was asked."""
    keys: Mapping[int, Key]
    """Number of a phase → the model that was asked in it."""
    samples: Mapping[int, Asked]
    """Ordinal → the answers as the pipeline combined them."""
    peak_bytes: Mapping[Key, int]
    """Model → peak memory of its engine, where it was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBundle:
    """The data of a run in database and storage."""

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
    judges: tuple[JudgeUse, ...]
    retunes: tuple[JsonObject, ...]
    platform_version: str
    origins: Mapping[str, str] | None = None
    examples_id: str | None = None
    """Hash of the examples that stood before every question; None without examples."""
    pipeline: PipelineRows | None = None
    """What the models of a pipeline answered; None of another target."""
    events: TokenEvents | None = None
    baseline_rows: polars.DataFrame | None = None
    summary: bytes | None = None
    """The stored `summary.json` of its newest report; None if it has no report."""
    hosts: Hosts = field(default_factory=dict)
    """The environments of the metrics that need theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A report without the pictures of its pages."""

    images: tuple[str, ...]
    """Content hashes of the pages that it shows."""
    content: bytes
    """The pickled report; only a child opens it, because that needs libraries which the worker does not import."""
    headline: JsonObject | None = None
    """The scores that are stored with a run, for lists; None for a comparison."""
    columns: JsonObject = field(default_factory=dict)
    """The columns of a run's summary, by which lists are filtered and ordered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFile:
    """One file of a report."""

    name: str
    kind: Literal["report", "table", "summary", "manifest"]
    media_type: str
    content: bytes
