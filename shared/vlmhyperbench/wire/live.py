"""Messages of the WebSocket `/api/v1/live`: a cursor per stream, a snapshot, then events and progress.

The client sends `Subscribe`, at any time again to follow more streams. For each stream the server sends one
`Snapshot`, then every event after the cursor exactly once and in order, and conflated `LiveProgress` in between.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, JsonValue, TypeAdapter

from vlmhyperbench.wire.base import Input, Output

MAX_SEQ = 2**63 - 1
SLOW_CLIENT = 4408
"""Close code: the client did not read in time; it may reconnect with its cursors."""
BAD_MESSAGE = 4400
"""Close code: the client sent a message that is not a valid `Subscribe`."""
UNAUTHORISED = 4401
"""Close code: the key is missing or not valid, or the request comes from another origin."""


class Cursor(Input):
    """A run or experiment to follow, with the sequence number of its last known event."""

    stream: UUID
    since: Annotated[int, Field(ge=0, le=MAX_SEQ)] = 0


class Subscribe(Input):
    """Client → server."""

    subscribe: Annotated[list[Cursor], Field(min_length=1, max_length=256)]


class Speeds(Output):
    """Speeds so far, as last reported by a worker; percentiles are accurate to 0.5 %."""

    in_flight: int | None = None
    output_tokens_per_s: float | None = None
    ttft_p50_ms: float | None = None
    ttft_p99_ms: float | None = None
    tpot_p50_ms: float | None = None
    """Of the mean time per output token of each answer: `tpot_p50_ms` and `tpot_p99_ms`."""
    tpot_p99_ms: float | None = None
    latency_p50_ms: float | None = None
    latency_p99_ms: float | None = None


class Resources(Output):
    """Current resource use of the engine and its machine: the worker's last sample; None where not measured."""

    cpu_util_percent: float
    """Of all cores, including those of the load generator and the worker."""
    memory_used_bytes: int
    """Of the whole machine."""
    engine_rss_bytes: int | None = None
    accelerator_memory_used_bytes: int | None = None
    accelerator_util_percent: float | None = None
    power_accelerator_w: float | None = None


class Progress(Output):
    """Progress of a run's stage; conflated, and never a durable record."""

    run_id: UUID
    stage: str
    done: int
    total: int | None = None
    unit: Literal["bytes"] | None = None
    """What `done` and `total` count; None: samples, or what the stage has instead of them."""
    failed: int = 0
    rate_per_s: float | None = None
    eta_s: float | None = None
    speeds: Speeds | None = None
    resources: Resources | None = None
    waits_for: str | None = None
    """What the run waits for; None while it makes progress."""
    at: datetime | None = None


class Snapshot(Output):
    """The current state of a stream, including its events up to `seq`."""

    type: Literal["snapshot"] = "snapshot"
    stream: UUID
    seq: int
    kind: Literal["run", "experiment"]
    data: JsonValue
    """A `Run` or `Experiment`."""
    progress: list[Progress] = Field(default_factory=list)


class LiveEvent(Output):
    """A durable event in the envelope of the event log."""

    type: Literal["event"] = "event"
    stream: UUID
    seq: int
    event: JsonValue
    """`{v, id, seq, ts, type, experiment_id, run_id, job_id, stage, data}`."""


class LiveProgress(Output):
    """New progress of a followed run."""

    type: Literal["progress"] = "progress"
    stream: UUID
    progress: Progress


class LiveRefusal(Output):
    """A stream that does not exist, or that the caller has no access to."""

    type: Literal["refused"] = "refused"
    stream: UUID
    code: str
    message: str


LiveMessage = Annotated[Snapshot | LiveEvent | LiveProgress | LiveRefusal, Field(discriminator="type")]
"""Server → client."""
LIVE_MESSAGE: TypeAdapter[Snapshot | LiveEvent | LiveProgress | LiveRefusal] = TypeAdapter(LiveMessage)
