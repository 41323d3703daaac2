"""Messages of the WebSocket `/api/v1/live`: a cursor per stream, a snapshot, then events and progress.

The client sends `Subscribe` (again at any time, to follow more); the server answers each stream with one `Snapshot`,
every event after the cursor in order, exactly once, and conflated `LiveProgress` in between.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, JsonValue, TypeAdapter

from vlmhyperbench.wire.base import Input, Output

LARGEST_SEQ = 2**63 - 1
SLOW_CLIENT = 4408
"""Close code: the client did not read in time; it comes back with its cursor."""
BAD_MESSAGE = 4400
"""Close code: the client sent what is not a `Subscribe`."""
UNAUTHORISED = 4401
"""Close code: no valid key, or a foreign origin."""


class Cursor(Input):
    """A run or experiment to follow, and the last event already known of it."""

    stream: UUID
    since: Annotated[int, Field(ge=0, le=LARGEST_SEQ)] = 0


class Subscribe(Input):
    """Client → server."""

    subscribe: Annotated[list[Cursor], Field(min_length=1, max_length=256)]


class Speeds(Output):
    """How fast answers come, so far, of the worker that said so last; percentiles are within 0.5 %."""

    in_flight: int | None = None
    output_tokens_per_s: float | None = None
    ttft_p50_ms: float | None = None
    ttft_p99_ms: float | None = None
    latency_p50_ms: float | None = None
    latency_p99_ms: float | None = None


class Resources(Output):
    """What the engine and its machine take now, as the worker that asks it sampled last; None of what it lacks."""

    cpu_util_percent: float
    """Of all cores, the load generator's and the worker's included."""
    memory_used_bytes: int
    """Of the machine."""
    engine_rss_bytes: int | None = None
    accelerator_memory_used_bytes: int | None = None
    accelerator_util_percent: float | None = None
    power_accelerator_w: float | None = None


class Progress(Output):
    """How far a stage of a run is; conflated, never a fact."""

    run_id: UUID
    stage: str
    done: int
    total: int | None = None
    failed: int = 0
    rate_per_s: float | None = None
    eta_s: float | None = None
    speeds: Speeds | None = None
    resources: Resources | None = None
    waits_for: str | None = None
    """Why nothing happens, where that is so."""
    at: datetime | None = None


class Snapshot(Output):
    """The present state of a stream; events up to `seq` are in it."""

    type: Literal["snapshot"] = "snapshot"
    stream: UUID
    seq: int
    kind: Literal["run", "experiment"]
    data: JsonValue
    """A `Run` or `Experiment`."""
    progress: list[Progress] = Field(default_factory=list)


class LiveEvent(Output):
    """One durable event, in the envelope of the event log."""

    type: Literal["event"] = "event"
    stream: UUID
    seq: int
    event: JsonValue
    """`{v, id, seq, ts, type, experiment_id, run_id, job_id, stage, data}`."""


class LiveProgress(Output):
    """A newer progress of a run that is followed."""

    type: Literal["progress"] = "progress"
    stream: UUID
    progress: Progress


class LiveRefusal(Output):
    """A stream that does not exist (or that the caller may not know of)."""

    type: Literal["refused"] = "refused"
    stream: UUID
    code: str
    message: str


LiveMessage = Annotated[Snapshot | LiveEvent | LiveProgress | LiveRefusal, Field(discriminator="type")]
"""Server → client."""
LIVE_MESSAGE: TypeAdapter[Snapshot | LiveEvent | LiveProgress | LiveRefusal] = TypeAdapter(LiveMessage)
