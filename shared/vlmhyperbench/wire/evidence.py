"""Bodies of what claims recorded: logs by line, and the use of devices over time."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from vlmhyperbench.wire.base import Output

LogWriter = Literal["engine", "gateway", "worker"]


class LogFile(Output):
    """A log that a claim stored; its content is also an artifact, of which a range can be downloaded."""

    id: UUID
    """Id of the artifact."""
    name: str
    of: LogWriter
    """What wrote it; a worker's has the lines of the claim's job only."""
    claim_id: UUID
    job: str
    """Kind of the claim's job."""
    host: str
    size_bytes: int
    created_at: datetime


class LogLine(Output):
    """A line of a log, cut to 4,000 characters."""

    no: int
    """Number of the line, from 1."""
    text: str


class LogLines(Output):
    """Lines of a log."""

    lines: list[LogLine]
    total: int
    """Number of lines of the whole log."""
    matching: int | None
    """Number of lines that contain the searched text; None without a search."""
    next: int | None
    """`after` of the next lines; None at the end."""


class Span(Output):
    """What a run did from one instant to another; times are milliseconds since 1970."""

    kind: Literal["claim", "phase"]
    name: str
    """Kind of the claim's job, or of the phase."""
    id: str
    host: str | None = None
    state: str | None = None
    start_ms: float
    end_ms: float | None
    """None while it is open."""


class ResourceSeries(Output):
    """Use of the devices of one claim's machine over time."""

    claim_id: UUID
    host: str
    job: str
    at_ms: list[float]
    """Middle of each bin, in milliseconds since 1970. Shape: (bins,)."""
    mean: dict[str, list[float | None]]
    """Name of a value → its mean in each bin. Shape of each: (bins,)."""
    max: dict[str, list[float | None]]
    """Its largest value in each bin."""
    overall_mean: dict[str, float | None]
    """Its mean over all samples."""
    overall_max: dict[str, float | None]
    samples: int
    """Number of samples before they were put into bins."""


class RunResources(Output):
    """Resources of a run on one clock with its phases and claims."""

    series: list[ResourceSeries]
    spans: list[Span]
    missing: list[str] = Field(default_factory=list)
    """Files that are missing or were changed, with the cure."""
