"""Load plan, record and result: the seam between whoever measures and the load generator.

**Plan**: a folder. `plan.json` is a `LoadPlan`; `requests.npy` is a structured array of `REQUEST_DTYPE`, one row per
request; `bodies.bin` holds the JSON bodies that its rows point into; `schedule-<phase>.npy` (int64 ns from the phase's
start) exists for open-loop phases; `turns.npy` and `places.npy` for conversations. The folder may be filled after the
process has started: one line on the process's stdin, a `ReadyLine`, says that it is complete and carries secret header
values, which are never written to disk.

**Conversations** (phases of kind `interactive`; `warmup` and `baseline` may hold them too): every request of the phase
is a turn and has a row of `TURN_DTYPE` in `turns.npy`; `turn` in `requests.npy` counts from 0 without a gap, and all
turns of a conversation name one `stream` (-1: any). Each of `in_flight` streams takes a conversation and drives it to
its end before it takes the next, in order of their first rows. Turn n+1 is due `think_ns` (its own) after the answer to
turn n has ended: that instant is its `scheduled_ns`. A turn's body is whole JSON in which every earlier answer that it
quotes is an empty string; each of those has a row of `PLACE_DTYPE` in `places.npy`, and the load generator puts the
text of the real answer there (`text` of the record: content without reasoning, escaped), between turns, and records
how long that took. A turn that does not end `ok` ends its conversation: the later turns are never sent, and their rows
have the status `skipped`.

**Record**: a folder, append-only: sealed segments `<phase>-<no>.parquet` with `RECORD_COLUMNS`, in order of
completion, each announced by one `SegmentLine` on stdout; phases by `PhaseLine`; the process's own cost by `EndLine`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vlmhyperbench_sdk.types import JsonObject

PLAN_VERSION = 1

SEGMENT_ROWS = 1024
SEGMENT_SECONDS = 2.0
"""A segment is sealed at whichever of the two comes first."""

REQUEST_DTYPE: list[tuple[str, str]] = [
    ("phase", "<i4"),
    ("ordinal", "<i8"),
    ("sample", "<i8"),
    ("repeat", "<i4"),
    ("turn", "<i4"),
    ("member", "<i4"),
    ("stream", "<i4"),  # -1: any free stream takes it
    ("body_offset", "<i8"),
    ("body_bytes", "<i8"),
    ("think_ns", "<i8"),
    ("prompt_tokens", "<i4"),  # -1: unknown
    ("output_tokens", "<i4"),  # -1: not asked for
    ("request_sha256", "S64"),
]
"""Columns of `requests.npy`, as numpy wants them; `sample` is the index in the sample manifest."""

TURN_DTYPE: list[tuple[str, str]] = [("phase", "<i4"), ("ordinal", "<i8"), ("conversation", "<i8")]
"""Columns of `turns.npy`: to which conversation a request belongs; its number, from 0, is unique within the phase."""

PLACE_DTYPE: list[tuple[str, str]] = [("phase", "<i4"), ("ordinal", "<i8"), ("answer_of", "<i4"), ("offset", "<i8")]
"""Columns of `places.npy`: the body of a request holds an empty JSON string, whose closing quote is `offset` bytes from
the body's start, for the answer to the earlier turn `answer_of`; a request's rows ascend by `offset`."""

RECORD_COLUMNS: dict[str, str] = {
    "phase": "i4",
    "ordinal": "i8",
    "sample": "i8",
    "repeat": "i4",
    "turn": "i4",
    "member": "i4",  # which model of a pipeline; 0: used once there are pipelines
    "stream": "i4",
    "scheduled_ns": "i8",
    "sent_ns": "i8?",
    "event_ns": "i8[]",
    "event_tokens": "i4[]",
    "event_kind": "str[]",  # content | reasoning | tool | role | usage
    "event_token_source": "str?",  # who counted event_tokens: usage (running) | tokenizer | estimated (spread)
    "last_event_ns": "i8?",
    "stream_end_ns": "i8?",
    "status": "str",  # ok | error | timeout | skipped (never sent: an earlier turn of its conversation failed)
    "http_status": "i4?",
    "finish_reason": "str?",
    "error": "str?",  # code: message; of an error body also its words, at the end: [code=…, type=…, param=…]
    "tries": "i4",
    "prompt_tokens": "i4?",
    "completion_tokens": "i4?",
    "token_source": "str?",  # who counted prompt_tokens and completion_tokens: usage | tokenizer | estimated
    "text": "str?",
    "reasoning": "str?",
    "request_sha256": "str",  # of the planned body: that of a later turn as it is without the answers
    "conversation": "i8?",  # null: the request is no turn of one
    "build_ns": "i8?",  # what it took to read the answer before and to build this turn's body; null of first turns
    "cached_tokens": "i4?",  # of prompt_tokens, those that the server says it had in its cache
}
"""Columns of a segment, in order: `i4 i8 str`, `?` nullable, `[]` list; the `event_*` lists run in parallel."""

TOKEN_EVENTS = ("content", "reasoning", "tool")
"""Kinds of events that bear tokens; the others never count in TTFT, ITL, TPOT or latency."""

PhaseKind = Literal[
    "accuracy", "warmup", "single_stream", "offline", "server", "multi_stream", "interactive", "baseline", "judge"
]
PhaseState = Literal["OPEN", "COMPLETE", "STOPPED", "VOID"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePlan:
    """One phase: `params` say how it is driven.

    A closed loop keeps `in_flight` requests under way. A phase with `arrivals` (the name of the process) is an open
    loop: its requests leave at the instants of `schedule-<no>.npy`, in order of the table, over `in_flight` connections
    that are ready before the clock starts and at most `max_in_flight` ones.
    """

    no: int
    kind: PhaseKind
    count: int | None = None
    """Requests in it; None where time bounds it."""
    params: JsonObject = field(default_factory=dict)
    slo: JsonObject = field(default_factory=dict)
    """Metric → limit in ms, as `{"ttft_p99": 500}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """What is measured."""

    url: str
    """The whole URL that requests are POSTed to (`…/v1/chat/completions`)."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Header → *name* of the secret whose value comes with the `ReadyLine`."""
    unix_socket: str | None = None
    verify: bool = True
    """Check the TLS certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLimits:
    """Bounds of one request and of the whole."""

    request_timeout_s: float = 300.0
    connect_timeout_s: float = 10.0
    max_answer_bytes: int = 8 * 1024 * 1024
    tries: int = 1
    """More than 1 only in resumable closed-loop phases; only the last try's timing counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """`plan.json`."""

    version: int
    phases: tuple[PhasePlan, ...]
    endpoint: Endpoint
    limits: LoadLimits
    seed: int
    counts: Mapping[str, int] = field(default_factory=dict)
    """`requests`, and whatever else the reader may check the folder against."""
    processes: int = 1
    """Measuring processes that share the streams; a phase never uses more of them than it has streams."""
    extra_body: JsonObject = field(default_factory=dict)
    """Fields that the user put into every body; stated for whoever reads the plan, the bodies hold them already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyLine:
    """Worker → load generator, one JSON line on stdin: the folder is complete.

    `cancel` ends the process instead, giving up what is under way. `drain` ends it too, but what a closed loop has sent
    is still answered and recorded, so that its rows are the first ones of the table, quick and slow.
    """

    event: Literal["ready", "cancel", "drain"]
    secrets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedLine:
    """Load generator → worker, first line: the process is up. `monotonic_ns`/`wall_ns` tie its clock to the wall."""

    event: Literal["started"]
    pid: int
    monotonic_ns: int
    wall_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseLine:
    """A phase opened or closed."""

    event: Literal["phase"]
    phase: int
    kind: PhaseKind
    params: JsonObject
    count: int | None
    state: PhaseState


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLine:
    """A segment is sealed and will not change."""

    event: Literal["segment"]
    segment: str
    """File name inside the record folder."""
    phase: int
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressLine:
    """Conflated, at most a few a second; never a fact."""

    event: Literal["progress"]
    phase: int
    done: int
    failed: int
    in_flight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndLine:
    """The last line: what measuring itself cost, and why it ended."""

    event: Literal["end"]
    outcome: Literal["complete", "cancelled", "failed"]
    error: str | None
    cpu_s: float
    peak_rss_bytes: int
    startup_s: float
    processes: int
    measuring_cpu_s: float | None = None
    """CPU time of the measuring children together over the measured window."""
    measuring_peak_rss_bytes: int | None = None
    """Of the largest measuring child."""
    loop_busy_share: float | None
    """CPU time of the measuring children over the measured window, per child."""
    schedule_sha256: str
    transport: Literal["tcp", "tls", "unix"] = "tcp"
    instants: Literal["kernel", "process", "mixed"] = "process"
    """Who took the instants of what arrived: the kernel, as far as it stamps and its clock can be trusted."""
    is_realtime: bool = False
    """The system let the measuring processes go before all ordinary ones."""
    receiver: Literal["compiled", "interpreted"] = "interpreted"
    """What took streamed answers in; both record the same, the compiled one at less cost."""
    idle_opened: int = 0
    """Streams that open loops opened beyond those that were ready before the clock started."""
    resent: int = 0
    """Requests of the measured phases that were sent twice within one try: the server closed the kept connection they
    went out on without a byte of an answer, so they left again on a new one. It may have been asked twice; their
    `sent_ns` is that of the first."""
