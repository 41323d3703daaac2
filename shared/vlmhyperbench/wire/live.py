"""Messages of `/api/v1/live`, WebSocket or server-sent events: a snapshot, then events, progress and details.

The client sends `Subscribe`, at any time again to follow more streams. For each stream the server sends one
`Snapshot`, then every event after the cursor exactly once and in order, and conflated `LiveProgress` in between.
A cursor may also ask for details of a run: its newest samples, resources and lines of logs. They are bounded, and
nothing repeats what a client has missed of them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter

from vlmhyperbench.wire.base import Input, Output

DetailKind = Literal["samples", "resources", "logs"]
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
    details: Annotated[tuple[DetailKind, ...], Field(alias="with", max_length=10)] = ()
    """Kinds of details that are sent too; those of a run only."""

    model_config = ConfigDict(populate_by_name=True)


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


class LiveSample(Output):
    """A request that was answered or has failed."""

    key: str
    """Of the sample in its dataset."""
    phase: int
    ordinal: int
    status: str
    error_code: str | None = None
    latency_ms: float | None = None
    ttft_ms: float | None = None
    output_tokens: int | None = None


class LiveSamples(Output):
    """The newest requests of a followed run that ended."""

    type: Literal["samples"] = "samples"
    stream: UUID
    samples: list[LiveSample]
    left_out: int = 0
    """Number of further requests that ended, and that the lists of the run's samples name."""


class LiveResources(Output):
    """The newest sample of the devices of a followed run."""

    type: Literal["resources"] = "resources"
    stream: UUID
    at: datetime
    resources: Resources


class LiveLine(Output):
    """A line of a log, without secrets."""

    source: Literal["engine", "gateway", "worker"]
    text: str


class LiveLines(Output):
    """New lines of the logs of a followed run; first the last ones that were written before."""

    type: Literal["logs"] = "logs"
    stream: UUID
    lines: list[LiveLine]
    left_out: int = 0
    """Number of lines that were written too fast to be sent; the log's artifact has them."""


class LiveRefusal(Output):
    """A stream that does not exist, or that the caller has no access to."""

    type: Literal["refused"] = "refused"
    stream: UUID
    code: str
    message: str


Live = Snapshot | LiveEvent | LiveProgress | LiveSamples | LiveResources | LiveLines | LiveRefusal
LiveMessage = Annotated[Live, Field(discriminator="type")]
"""Server → client."""
LIVE_MESSAGE: TypeAdapter[Live] = TypeAdapter(LiveMessage)
