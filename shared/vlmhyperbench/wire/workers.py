"""Response bodies of workers."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import Field

from vlmhyperbench.wire.base import Output


class Device(Output):
    """A GPU of a worker, or its one CPU slot."""

    no: int
    kind: str
    uuid: str
    name: str
    memory_bytes: int
    reserved_bytes: int = 0
    jobs: int = 0
    """Jobs that have a share of it."""
    is_broken: bool = False
    drained: str | None = None
    """Who drained it and why; null if it gets jobs."""


class Worker(Output):
    """A worker: one supervisor process and its doorbell."""

    id: UUID
    name: str
    kind: str
    queue: str
    host: str
    pid: int
    state: str
    is_stale: bool
    """Whether its heartbeat is overdue."""
    slots: int
    version: str
    resident: list[str] = Field(default_factory=list)
    """Digests of the targets that are loaded now."""
    devices: list[Device] = Field(default_factory=list)
    drained: str | None = None
    """Who drained it, or its machine, and why; null if it gets jobs."""
    registered_at: datetime
    last_seen_at: datetime
