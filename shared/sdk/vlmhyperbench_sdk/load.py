"""Load plan, record and result: the interface between a caller and the load generator.

**Plan**: a folder. `plan.json` is a `LoadPlan`; `requests.npy` is a structured array of `REQUEST_DTYPE`, one row per
request; `bodies.bin` holds the JSON bodies that its rows point into; `schedule-<phase>.npy` (int64 ns from the phase's
start) exists for open-loop phases; `turns.npy` and `places.npy` for conversations. The folder may be filled after the
process has started: one line on the process's stdin, a `ReadyLine`, tells it that the folder is complete and carries
secret header values, which are never written to disk.

**Conversations** (phases of kind `interactive`; `warmup` and `baseline` may hold them too): every request of the phase
is a turn and has a row of `TURN_DTYPE` in `turns.npy`; `turn` in `requests.npy` counts from 0 without a gap, and all
turns of a conversation name one `stream` (-1: any). Each of `in_flight` streams runs one conversation to its end before
it takes the next, in order of their first rows. Turn n+1 is scheduled `think_ns` (its own) after the end of the answer
to turn n: that instant is its `scheduled_ns`. A turn's body is complete JSON in which every earlier answer that it
quotes is an empty string. Each of these strings has a row of `PLACE_DTYPE` in `places.npy`; between turns the load
generator inserts the real answer there (`text` of the record: content without reasoning, escaped) and records how long
that took. A turn that does not end `ok` ends its conversation: the later turns are never sent, and their rows have the
status `skipped`.

**Record**: a folder, append-only: sealed segments `<phase>-<no>.parquet` with `RECORD_COLUMNS`, in order of
completion, each announced by one `SegmentLine` on stdout; phases by `PhaseLine`; the process's resource use by
`EndLine`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vlmhyperbench_sdk.types import JsonObject

PLAN_VERSION = 1

SEGMENT_ROWS = 1024
SEGMENT_SECONDS = 2.0
"""A segment is sealed after `SEGMENT_ROWS` rows or `SEGMENT_SECONDS`, whichever comes first."""

REQUEST_DTYPE: list[tuple[str, str]] = [
    ("phase", "<i4"),
    ("ordinal", "<i8"),
    ("sample", "<i8"),
    ("repeat", "<i4"),
    ("turn", "<i4"),
    ("member", "<i4"),
    ("stream", "<i4"),  # -1: any free stream
    ("body_offset", "<i8"),
    ("body_bytes", "<i8"),
    ("think_ns", "<i8"),
    ("prompt_tokens", "<i4"),  # -1: unknown
    ("output_tokens", "<i4"),  # -1: not requested
    ("request_sha256", "S64"),
]
"""Columns of `requests.npy` as a numpy dtype; `sample` is the index in the sample manifest."""

TURN_DTYPE: list[tuple[str, str]] = [("phase", "<i4"), ("ordinal", "<i8"), ("conversation", "<i8")]
"""Columns of `turns.npy`: the conversation of each request; its number, from 0, is unique within the phase."""

PLACE_DTYPE: list[tuple[str, str]] = [("phase", "<i4"), ("ordinal", "<i8"), ("answer_of", "<i4"), ("offset", "<i8")]
"""Columns of `places.npy`: each row locates an empty JSON string in a request's body, to be filled with the answer to
the earlier turn `answer_of`; its closing quote is `offset` bytes from the body's start. A request's rows ascend by
`offset`."""

RECORD_COLUMNS: dict[str, str] = {
    "phase": "i4",
    "ordinal": "i8",
    "sample": "i8",
    "repeat": "i4",
    "turn": "i4",
    "member": "i4",  # always 0: a pipeline's models have a phase each
    "stream": "i4",
    "scheduled_ns": "i8",
    "sent_ns": "i8?",
    "event_ns": "i8[]",
    "event_tokens": "i4[]",
    "event_kind": "str[]",  # content | reasoning | tool | role | usage
    "event_token_source": "str?",  # source of event_tokens: usage (running) | tokenizer | estimated (spread)
    "last_event_ns": "i8?",
    "stream_end_ns": "i8?",
    "status": "str",  # ok | error | timeout | skipped (never sent: an earlier turn of its conversation failed)
    "http_status": "i4?",
    "finish_reason": "str?",
    "error": "str?",  # `code: message`; for an error body followed by its fields: [code=…, type=…, param=…]
    "tries": "i4",
    "prompt_tokens": "i4?",
    "completion_tokens": "i4?",
    "token_source": "str?",  # source of prompt_tokens and completion_tokens: usage | tokenizer | estimated
    "text": "str?",
    "reasoning": "str?",
    "request_sha256": "str",  # of the planned body; for a later turn, before the answers are inserted
    "conversation": "i8?",  # null: the request is not part of a conversation
    "build_ns": "i8?",  # time to parse the previous answer and build this turn's body; null for first turns
    "cached_tokens": "i4?",  # prompt tokens that the server reports as cached
}
"""Columns of a segment, in order: types `i4 i8 str`, `?` nullable, `[]` list; the `event_*` lists are parallel."""

TOKEN_EVENTS = ("content", "reasoning", "tool")
"""Kinds of events that carry tokens; other kinds never count in TTFT, ITL, TPOT or latency."""

PhaseKind = Literal[
    "accuracy",
    "warmup",
    "single_stream",
    "offline",
    "server",
    "multi_stream",
    "interactive",
    "baseline",
    "judge",
    "member",
]
RETUNABLE: tuple[PhaseKind, ...] = ("accuracy", "offline")
"""Kinds of closed loops whose requests in flight may be changed while they run."""
PhaseState = Literal["OPEN", "COMPLETE", "STOPPED", "VOID"]
LoadOutcome = Literal["complete", "cancelled", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePlan:
    """A phase; `params` configure its load.

    A closed loop keeps `in_flight` requests in flight. A phase with `arrivals` (the name of the arrival process) is an
    open loop: its requests are sent at the instants of `schedule-<no>.npy`, in order of the table, over `in_flight`
    connections that are opened before the clock starts, and at most `max_in_flight` connections in total.
    """

    no: int
    kind: PhaseKind
    count: int | None = None
    """Number of requests; None if the phase is limited by time."""
    params: JsonObject = field(default_factory=dict)
    slo: JsonObject = field(default_factory=dict)
    """Metric → limit in ms, such as `{"ttft_p99": 500}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The measured endpoint."""

    url: str
    """Full URL of the POST requests (`…/v1/chat/completions`)."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Header → *name* of the secret whose value is sent in the `ReadyLine`."""
    unix_socket: str | None = None
    verify: bool = True
    """Whether to verify the TLS certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLimits:
    """Limits of each request."""

    request_timeout_s: float = 300.0
    connect_timeout_s: float = 10.0
    max_answer_bytes: int = 8 * 1024 * 1024
    tries: int = 1
    """Maximum attempts; above 1 only in resumable closed-loop phases. Only the timing of the last attempt counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """Content of `plan.json`."""

    version: int
    phases: tuple[PhasePlan, ...]
    endpoint: Endpoint
    limits: LoadLimits
    seed: int
    counts: Mapping[str, int] = field(default_factory=dict)
    """`requests` and other counts against which a reader may check the folder."""
    processes: int = 1
    """Number of measuring processes that share the streams; a phase never uses more processes than it has streams."""
    extra_body: JsonObject = field(default_factory=dict)
    """Fields that the user added to every body; for information, since the bodies already contain them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyLine:
    """Worker → load generator, one JSON line on stdin: `ready` says that the folder is complete.

    `cancel` ends the process and aborts requests in flight. `drain` ends it too, but requests that a closed loop has
    sent are still answered and recorded, so that its rows are the first rows of the table, both fast and slow ones.
    """

    event: Literal["ready", "cancel", "drain"]
    secrets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetuneLine:
    """Worker → load generator: the number of requests in flight of this phase and the later ones of a retunable kind.

    Streams are added at once; a stream too many answers its request and takes no other. There is at least one stream
    in each measuring process, and no more than the system allows open files. The line may come before the phase.
    """

    event: Literal["retune"]
    in_flight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedLine:
    """Load generator → worker, first line: the process is up; `monotonic_ns`/`wall_ns` tie its clock to wall time."""

    event: Literal["started"]
    pid: int
    monotonic_ns: int
    wall_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseLine:
    """Load generator → worker: a phase was opened or closed."""

    event: Literal["phase"]
    phase: int
    kind: PhaseKind
    params: JsonObject
    count: int | None
    state: PhaseState


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLine:
    """Load generator → worker: a segment is sealed and will not change."""

    event: Literal["segment"]
    segment: str
    """File name in the record folder."""
    phase: int
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressLine:
    """Load generator → worker: conflated progress, at most a few lines per second; never a durable record."""

    event: Literal["progress"]
    phase: int
    done: int
    failed: int
    in_flight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndLine:
    """Load generator → worker, last line: why the process ended, and the resources that measuring used."""

    event: Literal["end"]
    outcome: LoadOutcome
    error: str | None
    cpu_s: float
    peak_rss_bytes: int
    startup_s: float
    processes: int
    measuring_cpu_s: float | None = None
    """Total CPU time of the measuring processes over the measured window."""
    measuring_peak_rss_bytes: int | None = None
    """Peak RSS of the largest measuring process."""
    loop_busy_share: float | None
    """CPU time of the measuring processes divided by the measured window, per process."""
    schedule_sha256: str
    transport: Literal["tcp", "tls", "unix"] = "tcp"
    instants: Literal["kernel", "process", "mixed"] = "process"
    """Source of receive timestamps: the kernel, where it supports them and its clock can be trusted, or the process."""
    is_realtime: bool = False
    """Whether the measuring processes ran with real-time priority."""
    receiver: Literal["compiled", "interpreted"] = "interpreted"
    """Implementation that received streamed answers; both record the same, the compiled one at a lower cost."""
    idle_opened: int = 0
    """Number of streams that open loops opened in addition to those opened before the clock started."""
    resent: int = 0
    """Number of requests of the measured phases that were sent twice within one attempt: the server closed the
    kept-alive connection without a byte of an answer, so the request was sent again on a new connection. The server may
    have received it twice; `sent_ns` is that of the first sending."""
    reopened: int = 0
    """Number of connections that streams opened between two requests of the measured phases, because the server closed
    the one before."""
