"""Plan a load from its description: bodies, phases and schedule are complete before any clock starts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np

from vlmhyperbench.analysis.load_design import Grouping, OpenLoop
from vlmhyperbench.domain.arrivals import Arrivals, Instants, arrivals_within, draw_arrivals, trace_instants
from vlmhyperbench.domain.units import NS_PER_S
from vlmhyperbench.load.bodies import RequestContent, TurnBody, make_bodies, make_turns
from vlmhyperbench.load.plan import RequestTable, write_bodies, write_plan
from vlmhyperbench.load.trace import TracedRequest
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.load import PLAN_VERSION, Endpoint, LoadLimits, LoadPlan, PhasePlan
from vlmhyperbench_sdk.types import JsonValue

Scenario = Literal["offline", "single_stream", "multi_stream", "server", "interactive"]

WARMUP_PHASE, MEASURED_PHASE, BASELINE_PHASE = 0, 1, 2
MAX_CONVERSATIONS = 4096
"""Maximum number of conversations that arrive at a rate, because each has a stream of its own."""

_WARMUP_SEED = 0x77A2


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A load as a user describes it."""

    scenario: Scenario
    content: RequestContent
    requests: int | None
    """Number of measured requests; None for as many as last `duration_s`."""
    duration_s: float | None
    streams: int
    """Number of requests in flight; for `server`, the number of connections that are open before the clock starts."""
    arrivals: Arrivals | None
    """Arrivals of `server`, unless a trace is given."""
    trace: tuple[TracedRequest, ...]
    speed: float
    warmup: int
    timeout_s: float
    seed: int
    processes: int
    is_at_least: bool = False
    """Whether `duration_s` is a minimum and `min_requests` applies, as for presets."""
    min_requests: int = 1
    samples_per_query: int = 0
    """For multi_stream, the number of streams whose k-th requests form query k; 0 if there are no queries."""
    baseline: int = 0
    """For multi_stream, the number of requests that are sent first, one at a time, for comparison."""
    conversations: int | None = None
    """For interactive, the number of conversations; None for as many as arrive in `duration_s`. Without arrivals, each
    stream holds one at a time."""
    turns: int = 1
    """Number of turns of each conversation."""
    think_s: float = 0.0
    """Seconds between the end of an answer and the next turn."""
    max_in_flight: int | None = None
    """For `server`, the maximum number of connections, beyond which requests wait; None for the load generator's."""

    @property
    def is_open_loop(self) -> bool:
        """Whether requests are sent by a schedule, whether or not earlier ones are answered."""
        return self.scenario == "server" or (self.scenario == "interactive" and self.arrivals is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLoad:
    """Facts about a planned load that its result needs."""

    requests: int
    open_loop: OpenLoop | None
    grouping: Grouping


def check_load(workload: Workload) -> None:
    """Check that a load can be planned, without planning it.

    Raises:
        InvalidInput: the description contradicts itself or asks for too much.
    """
    if not workload.trace and workload.requests is not None and workload.duration_s is not None:
        raise InvalidInput(
            "--requests and --duration exclude each other: one sets the number of requests, the other the time.",
            cure="Leave out one of them.",
        )
    if workload.scenario == "interactive":
        _check_conversations(workload)
    if workload.baseline and workload.scenario != "multi_stream":
        message = f"--baseline does not fit {workload.scenario}."
        raise InvalidInput(message, cure="Leave it out, or give --scenario multi_stream.")
    if workload.max_in_flight is not None:
        _check_connections(workload, workload.max_in_flight)
    instants = _instants(workload)
    if instants is None:
        count = workload.conversations if workload.scenario == "interactive" else workload.requests
        is_empty = count == 0
    else:
        is_empty = instants.size == 0
    if is_empty:
        raise InvalidInput("The load has no requests.", cure="Give --requests, or a longer --duration.")
    if instants is None and workload.duration_s is None:
        _check_streams(workload)
    if workload.scenario == "interactive" and instants is not None and instants.size > MAX_CONVERSATIONS:
        raise InvalidInput(
            f"{instants.size} conversations would arrive; the maximum is {MAX_CONVERSATIONS}, one stream for each.",
            cure="Give a smaller --rate, --duration or --conversations.",
        )


def _check_connections(workload: Workload, max_in_flight: int) -> None:
    if workload.scenario != "server":
        raise InvalidInput(
            f"--max-in-flight does not fit {workload.scenario}, where the number of connections is fixed.",
            cure="Leave it out; --concurrency sets the number of requests in flight.",
        )
    if workload.streams > max_in_flight:
        raise InvalidInput(
            f"--concurrency {workload.streams} is larger than --max-in-flight {max_in_flight}.",
            cure=f"Give a --concurrency of at most {max_in_flight}, or a larger --max-in-flight.",
        )


def _check_streams(workload: Workload) -> None:
    is_interactive = workload.scenario == "interactive"
    count = workload.conversations if is_interactive else workload.requests
    if workload.scenario != "single_stream" and count is not None and count < workload.streams:
        what = "conversations" if is_interactive else "requests"
        raise InvalidInput(
            f"{count} {what} cannot keep {workload.streams} streams busy.",
            cure=f"Give --{what} {workload.streams} or more (better several times that), or a smaller --concurrency.",
        )


def _check_conversations(workload: Workload) -> None:
    if workload.requests is not None or workload.trace:
        raise InvalidInput(
            "--requests and --trace do not fit interactive, which consists of conversations.",
            cure="Give --conversations and --turns instead.",
        )
    if workload.arrivals is None and (workload.duration_s is not None or workload.conversations is None):
        raise InvalidInput(
            "interactive without --rate needs --conversations, and does not take --duration.",
            cure="Give --conversations, or --rate (conversations per second) with --duration.",
        )
    if (workload.duration_s is None) == (workload.conversations is None):
        raise InvalidInput(
            "interactive with --rate needs either --conversations or --duration.",
            cure="Give exactly one of them.",
        )


def write_load(folder: Path, workload: Workload, endpoint: Endpoint) -> WrittenLoad:
    """Write the plan of a load into a folder.

    Raises:
        InvalidInput: the description contradicts itself or asks for too much.
        OSError: the disk is full.
    """
    check_load(workload)
    instants = _instants(workload)
    if instants is None and workload.scenario != "interactive" and workload.requests is None:
        raise InvalidInput(f"The number of requests that lasts the duration of {workload.scenario} is not known yet.")
    if workload.scenario == "interactive":
        tables = _write_conversations(folder, workload, instants)
    else:
        tables = _write_requests(folder, workload, instants)
    phases = [tables.phase]
    if workload.baseline:
        phases.insert(
            0, PhasePlan(no=BASELINE_PHASE, kind="baseline", count=workload.baseline, params={"in_flight": 1})
        )
    if workload.warmup:
        warmup = min(tables.streams, workload.warmup)
        phases.insert(0, PhasePlan(no=WARMUP_PHASE, kind="warmup", count=workload.warmup, params={"in_flight": warmup}))
    plan = LoadPlan(
        version=PLAN_VERSION,
        phases=tuple(phases),
        endpoint=endpoint,
        limits=LoadLimits(request_timeout_s=workload.timeout_s),
        seed=workload.seed,
        processes=workload.processes,
        extra_body=workload.content.extra_body,
    )
    schedules = {MEASURED_PHASE: instants} if "arrivals" in tables.phase.params and instants is not None else {}
    write_plan(
        folder, plan=plan, requests=tables.requests, schedules=schedules, turns=tables.turns, places=tables.places
    )
    open_loop = None
    if instants is not None:
        cv = workload.arrivals.cv if workload.arrivals is not None else 1.0
        open_loop = OpenLoop(process=_process(workload), scheduled_ns=instants, cv=cv)
    grouping = Grouping(
        streams=tables.streams if instants is None else 1,
        is_by_stream=workload.scenario == "multi_stream",
        samples_per_query=workload.samples_per_query,
        baseline_phase=BASELINE_PHASE if workload.baseline else None,
        pixels=tables.pixels or None,
    )
    return WrittenLoad(requests=tables.phase.count or 0, open_loop=open_loop, grouping=grouping)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tables:
    """The measured phase of a plan and the rows of its tables."""

    phase: PhasePlan
    requests: RequestTable
    streams: int
    pixels: list[int]
    turns: list[tuple[int, int, int]]
    places: list[tuple[int, int, int, int]]


def _write_requests(folder: Path, workload: Workload, instants: Instants | None) -> _Tables:
    count = workload.requests or 0 if instants is None else int(instants.size)
    streams = 1 if workload.scenario == "single_stream" else min(workload.streams, count)
    pixels: list[int] = []
    bodies = make_bodies(
        workload.content,
        workload.warmup + workload.baseline + count,
        pixels,
        seed=workload.seed,
        trace=workload.trace,
        warmup=workload.warmup,
    )
    written = write_bodies(folder, bodies)
    lengths = {WARMUP_PHASE: workload.warmup, BASELINE_PHASE: workload.baseline, MEASURED_PHASE: count}
    # If all requests are the same, there is a single body.
    table = written[np.arange(sum(lengths.values())) % max(1, len(written))]
    table["phase"] = np.repeat([*lengths], [*lengths.values()])
    table["ordinal"] = table["sample"] = np.concatenate([np.arange(length) for length in lengths.values()])
    if workload.scenario == "multi_stream":
        table["stream"][table["phase"] == MEASURED_PHASE] = np.arange(count) % streams
    params: dict[str, JsonValue] = {"in_flight": streams}
    if instants is not None:
        params["arrivals"] = _process(workload)
        if workload.max_in_flight is not None:
            params["max_in_flight"] = workload.max_in_flight
    return _Tables(
        phase=PhasePlan(no=MEASURED_PHASE, kind=workload.scenario, count=count, params=params),
        requests=table,
        streams=streams,
        pixels=pixels[workload.warmup + workload.baseline :],
        turns=[],
        places=[],
    )


def _write_conversations(folder: Path, workload: Workload, instants: Instants | None) -> _Tables:
    """Write the turns of conversations; with arrivals, each conversation has a stream, whose first turn is delayed."""
    count = workload.conversations or 0 if instants is None else int(instants.size)
    streams = min(workload.streams, count) if instants is None else count
    # The warm-up has conversations of its own, so that no cache knows the measured ones.
    warmup = make_turns(workload.content, conversations=workload.warmup, turns=1, seed=workload.seed ^ _WARMUP_SEED)
    conversations = make_turns(workload.content, conversations=count, turns=workload.turns, seed=workload.seed)
    written: list[TurnBody] = []

    def bodies() -> Iterator[bytes]:
        for turn in chain(warmup, conversations):
            written.append(dataclasses.replace(turn, body=b""))
            yield turn.body

    table = write_bodies(folder, bodies())
    measured, rows = written[workload.warmup :], table[workload.warmup :]
    table["phase"][: workload.warmup] = WARMUP_PHASE
    rows["phase"], rows["ordinal"] = MEASURED_PHASE, np.arange(len(rows))
    rows["sample"] = conversation = np.array([turn.conversation for turn in measured], dtype=np.int64)
    rows["turn"] = [turn.turn for turn in measured]
    first_ns = 0 if instants is None else instants[conversation]
    rows["think_ns"] = np.where(rows["turn"] > 0, round(workload.think_s * NS_PER_S), first_ns)
    if instants is not None:
        rows["stream"] = conversation
    return _Tables(
        phase=PhasePlan(no=MEASURED_PHASE, kind="interactive", count=len(rows), params={"in_flight": streams}),
        requests=table,
        streams=streams,
        pixels=[turn.pixels for turn in measured if turn.pixels],
        turns=[(MEASURED_PHASE, ordinal, turn.conversation) for ordinal, turn in enumerate(measured)],
        places=[
            (MEASURED_PHASE, ordinal, answer_of, offset)
            for ordinal, turn in enumerate(measured)
            for answer_of, offset in enumerate(turn.answer_offsets)
        ],
    )


def _process(workload: Workload) -> Literal["constant", "poisson", "gamma", "burst", "ramp", "trace"]:
    return "trace" if workload.trace or workload.arrivals is None else workload.arrivals.process


def _instants(workload: Workload) -> Instants | None:
    """Return the instants at which an open loop sends, drawn at random or from the trace; None for a closed loop."""
    if workload.scenario == "interactive" and workload.arrivals is None:
        return None
    if not workload.is_open_loop:
        if workload.arrivals is not None or workload.trace:
            raise InvalidInput(
                f"--rate and --trace do not fit {workload.scenario}, which sends a request when one has ended.",
                cure="Give --scenario server, or leave them out.",
            )
        return None
    if workload.trace:
        instants = trace_instants([request.timestamp_s for request in workload.trace], speed=workload.speed)
        if workload.duration_s is not None:
            instants = instants[instants < workload.duration_s * NS_PER_S]
        return instants[: workload.requests]
    if workload.arrivals is None:
        raise InvalidInput("--scenario server needs a rate.", cure="Give --rate, or --trace.")
    if workload.duration_s is not None:
        if not workload.is_at_least:
            return arrivals_within(workload.arrivals, duration_s=workload.duration_s, seed=workload.seed)
        # The measurement starts at the first arrival, and must include an arrival after the duration.
        first_s = float(draw_arrivals(workload.arrivals, count=1, seed=workload.seed)[0]) / NS_PER_S
        lasts_s = first_s + workload.duration_s
        within = arrivals_within(workload.arrivals, duration_s=lasts_s, seed=workload.seed)
        min_count = max(int(within.size) + 1, -(-workload.min_requests // workload.turns))
        return draw_arrivals(workload.arrivals, count=min_count, seed=workload.seed)
    count = (workload.conversations if workload.scenario == "interactive" else workload.requests) or 0
    return draw_arrivals(workload.arrivals, count=count, seed=workload.seed)
