"""Read a plan and check it: unknown fields, unsupported kinds of phases, tables that contradict each other."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from vlmhyperbench_loadgen.conversations import check_quotations, make_conversations
from vlmhyperbench_loadgen.failures import PlanError
from vlmhyperbench_loadgen.table import (
    BODIES,
    Request,
    open_bodies,
    read_quotations,
    read_requests,
    read_schedule,
    read_turns,
    schedule_path,
)
from vlmhyperbench_loadgen.target import parse_url
from vlmhyperbench_sdk.load import PLAN_VERSION, Endpoint, LoadLimits, LoadPlan, PhasePlan

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

CLOSED_LOOP_KINDS = frozenset(
    {"accuracy", "warmup", "offline", "judge", "member", "baseline", "single_stream", "multi_stream", "interactive"}
)
"""Kinds that are driven by a number of streams, each with one request in flight."""

OPEN_LOOP_KINDS = frozenset({"server", "warmup", "baseline"})
"""Kinds whose requests may be sent at the instants of a schedule; those of `server` always are."""

CONVERSATION_KINDS = frozenset({"interactive", "warmup", "baseline"})
"""Kinds whose requests may be turns of conversations; those of `interactive` always are."""

RESUMABLE_KINDS = frozenset({"accuracy", "offline", "judge", "member"})
"""Kinds in which a request may be retried: the timing of the whole phase does not depend on it."""

MAX_STREAMS = 4096
MAX_OPEN_STREAMS = 65_536
MAX_PROCESSES = 64
Transport = Literal["tcp", "tls", "unix"]
_PHASE, _KEY, _TURN = itemgetter(0), itemgetter(0, 1), itemgetter(0, 4)
"""Fields of a request by index, which is faster than by name: start-up reads a plan of up to a million requests."""

_T = TypeVar("_T", bound="DataclassInstance")


@dataclasses.dataclass(frozen=True, slots=True)
class CheckedPlan:
    """A valid plan."""

    plan: LoadPlan
    requests: dict[int, int]
    """Phase → number of its requests."""
    schedule_sha256: str
    """Hash of the tables: which requests are sent in which order, and at which instants in open loops."""

    def streams_of(self, phase: PhasePlan) -> int:
        """Return how many streams are open before a phase's clock starts; a closed loop opens no others later."""
        return streams_of(phase)

    def max_streams_of(self, phase: PhasePlan) -> int:
        """Return how many streams a phase may open."""
        open_streams = streams_of(phase)
        if not is_open_loop(phase):
            return open_streams
        max_in_flight = int(str(phase.params.get("max_in_flight", 4096)))
        return max(open_streams, min(self.requests.get(phase.no, 0), max_in_flight))

    def tries_of(self, phase: PhasePlan) -> int:
        """Return how often a request of a phase may be tried."""
        return self.plan.limits.tries if phase.kind in RESUMABLE_KINDS else 1


def is_open_loop(phase: PhasePlan) -> bool:
    """Return whether a phase's requests are sent at the instants of a schedule."""
    return "arrivals" in phase.params


def transport_of(endpoint: Endpoint) -> Transport:
    """Return the transport of requests to an endpoint."""
    if endpoint.url.startswith("https:"):
        return "tls"
    return "unix" if endpoint.unix_socket is not None else "tcp"


def streams_of(phase: PhasePlan) -> int:
    """Return how many streams are open before a phase's clock starts."""
    return 1 if phase.kind == "single_stream" else int(str(phase.params.get("in_flight", 1)))


def read_plan(folder: Path) -> CheckedPlan:
    """Read the plan and its table of requests.

    Raises:
        PlanError: a file or field is missing, malformed or not supported, or two of them contradict each other.
    """
    path = folder / "plan.json"
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise PlanError(f"plan.json cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise PlanError("plan.json is not JSON.") from error
    plan = _make_plan(document)
    rows = read_requests(folder / "requests.npy")
    _check_plan(plan)
    _check_rows(plan, rows, _size(folder / BODIES))
    _check_conversations(plan, rows, folder)
    counts = Counter(map(_PHASE, rows))
    digest = hashlib.sha256((folder / "requests.npy").read_bytes())
    for phase in filter(is_open_loop, plan.phases):
        path = schedule_path(folder, phase.no)
        instants = read_schedule(path)
        if len(instants) != counts[phase.no]:
            raise PlanError(f"{path.name} has {len(instants)} instants for {counts[phase.no]} requests.")
        digest.update(path.read_bytes())
    for path in (folder / "turns.npy", folder / "places.npy"):
        digest.update(path.read_bytes() if path.exists() else b"")
    return CheckedPlan(plan=plan, requests=dict(counts), schedule_sha256=digest.hexdigest())


def _make_plan(document: object) -> LoadPlan:
    fields = _check_fields(LoadPlan, document, "plan")
    phases = fields.get("phases")
    if not isinstance(phases, list):
        raise PlanError("plan.phases must be a list.")
    fields["phases"] = tuple(_make(PhasePlan, phase, f"plan.phases[{index}]") for index, phase in enumerate(phases))
    fields["endpoint"] = _make(Endpoint, fields.get("endpoint"), "plan.endpoint")
    fields["limits"] = _make(LoadLimits, fields.get("limits"), "plan.limits")
    return LoadPlan(**fields)


def _make(kind: type[_T], document: object, location: str) -> _T:
    return kind(**_check_fields(kind, document, location))


def _check_fields(kind: type[_T], document: object, location: str) -> dict[str, Any]:
    """Return a copy of an object that has all required fields of a dataclass, and no other than its fields."""
    if not isinstance(document, dict):
        raise PlanError(f"{location} must be an object.")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for name in sorted(set(document) - fields.keys()):
        raise PlanError(f"{location} has an unknown field {name!r}; known are {', '.join(sorted(fields))}.")
    for name, field in fields.items():
        if name not in document and field.default is field.default_factory is dataclasses.MISSING:
            raise PlanError(f"{location} has no field {name!r}.")
    return dict(document)


def _check_plan(plan: LoadPlan) -> None:
    if plan.version != PLAN_VERSION:
        raise PlanError(f"plan.version is {plan.version!r}; this load generator reads {PLAN_VERSION}.")
    if not _is_int(plan.processes, 1, MAX_PROCESSES):
        raise PlanError(f"plan.processes must lie between 1 and {MAX_PROCESSES}.")
    if not _is_int(plan.seed, -(2**63), 2**63 - 1):
        raise PlanError("plan.seed must be a whole number of 64 bits.")
    if not plan.phases:
        raise PlanError("The plan has no phase.")
    if len({phase.no for phase in plan.phases}) != len(plan.phases):
        raise PlanError("Two phases have the same number.")
    for phase in plan.phases:
        _check_phase(phase)
    limits = plan.limits
    if not (_is_seconds(limits.request_timeout_s) and _is_seconds(limits.connect_timeout_s)):
        raise PlanError("The time-outs in plan.limits must be above 0 and at most 86,400 seconds.")
    if not _is_int(limits.max_answer_bytes, 1, 2**40) or not _is_int(limits.tries, 1, 100):
        raise PlanError("plan.limits.max_answer_bytes and tries must be whole numbers, at least 1.")
    endpoint = plan.endpoint
    if not isinstance(endpoint.url, str) or not isinstance(endpoint.verify, bool):
        raise PlanError("plan.endpoint needs a url, and verify as true or false.")
    parse_url(endpoint.url)
    if not isinstance(endpoint.headers, Mapping) or not all(isinstance(v, str) for v in endpoint.headers.values()):
        raise PlanError("plan.endpoint.headers must name a secret for each header.")
    if endpoint.unix_socket is not None and not isinstance(endpoint.unix_socket, str):
        raise PlanError("plan.endpoint.unix_socket must be a path.")


def _check_phase(phase: PhasePlan) -> None:
    if not _is_int(phase.no, 0, 2**31 - 1):
        raise PlanError("A phase's number must be a whole number, at least 0.")
    if not isinstance(phase.params, dict):
        raise PlanError(f"Phase {phase.no} needs params that are an object.")
    kinds = OPEN_LOOP_KINDS if is_open_loop(phase) else CLOSED_LOOP_KINDS
    if phase.kind not in kinds:
        loop = "an open loop" if is_open_loop(phase) else "a closed loop"
        raise PlanError(
            f"Phase {phase.no} is {loop} of kind {phase.kind!r}; the kind must be one of {', '.join(sorted(kinds))}."
        )
    if is_open_loop(phase) and not _is_int(phase.params.get("max_in_flight", 4096), 1, MAX_OPEN_STREAMS):
        raise PlanError(f"Phase {phase.no} needs params.max_in_flight between 1 and {MAX_OPEN_STREAMS}.")
    if not _is_int(phase.params.get("in_flight", 1), 1, MAX_STREAMS):
        raise PlanError(f"Phase {phase.no} needs params.in_flight between 1 and {MAX_STREAMS}.")
    if "search" in phase.params:
        raise PlanError(f"Phase {phase.no} has params.search, which this load generator does not support.")


def _check_rows(plan: LoadPlan, rows: list[Request], body_bytes: int) -> None:
    counts = Counter(map(_PHASE, rows))
    known = {phase.no: (is_open_loop(phase), streams_of(phase)) for phase in plan.phases}
    if "requests" in plan.counts and plan.counts["requests"] != len(rows):
        raise PlanError(f"plan.counts.requests is {plan.counts['requests']}; requests.npy has {len(rows)} rows.")
    for phase in plan.phases:
        if phase.count is None or phase.count != counts[phase.no]:
            stated = "missing" if phase.count is None else phase.count
            raise PlanError(f"The count of phase {phase.no} is {stated}; requests.npy has {counts[phase.no]} rows.")
    for no in counts.keys() - known.keys():
        raise PlanError(f"A request belongs to phase {no}, which the plan does not have.")
    if len(set(map(_KEY, rows))) != len(rows):
        raise PlanError("Two requests have the same phase and ordinal.")
    for no, ordinal, _, _, _, _, stream, offset, size, think_ns, *_ in rows:
        is_open, streams = known[no]
        if not 0 <= offset <= offset + size <= body_bytes:
            raise PlanError(f"The body of request {ordinal} of phase {no} lies outside bodies.bin.")
        if think_ns < 0 or not -1 <= stream < MAX_STREAMS:
            raise PlanError(
                f"Request {ordinal} of phase {no} has stream {stream} and a think time of {think_ns} ns: the stream "
                f"must lie between -1 and {MAX_STREAMS - 1}, and the think time must not be negative."
            )
        if is_open and (stream >= 0 or think_ns > 0):
            raise PlanError(f"Request {ordinal} names a stream or think time; phase {no} is an open loop.")
        if stream >= streams:
            raise PlanError(f"Request {ordinal} names stream {stream}; phase {no} has {streams}, numbered from 0.")


def _check_conversations(plan: LoadPlan, rows: list[Request], folder: Path) -> None:
    turns, quotations = read_turns(folder), read_quotations(folder)
    keys = {(row.phase, row.ordinal) for row in rows} if turns or quotations else set()
    for phase_no, ordinal in turns.keys() - keys:
        raise PlanError(f"turns.npy names request {ordinal} of phase {phase_no}, which requests.npy does not have.")
    for phase_no, ordinal in quotations.keys() - turns.keys():
        raise PlanError(f"places.npy names request {ordinal} of phase {phase_no}, which turns.npy does not have.")
    with_turns = {phase for phase, _ in turns}
    with_later_turns = {phase for phase, turn in set(map(_TURN, rows)) if turn}
    for phase in plan.phases:
        if phase.kind == "interactive" or phase.no in with_turns:
            if phase.kind not in CONVERSATION_KINDS or is_open_loop(phase):
                raise PlanError(
                    f"Phase {phase.no} of kind {phase.kind!r} has conversations: it must be a closed loop of one of "
                    f"these kinds: {', '.join(sorted(CONVERSATION_KINDS))}."
                )
            requests = [row for row in rows if row.phase == phase.no]
            check_quotations(make_conversations(requests, turns, quotations), open_bodies(folder / BODIES))
        elif phase.no in with_later_turns:
            raise PlanError(f"Phase {phase.no} has later turns of conversations that turns.npy does not name.")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise PlanError(f"{path.name} cannot be read: {error.strerror}.") from error


def _is_int(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_seconds(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 86_400
