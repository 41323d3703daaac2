"""Make a load out of its description: the bodies, the phases and the schedule, complete before any clock starts."""

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
from vlmhyperbench.load.bodies import Asked, TurnBody, make_bodies, make_turns
from vlmhyperbench.load.plan import RequestTable, write_bodies, write_plan
from vlmhyperbench.load.trace import TracedRequest
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.load import PLAN_VERSION, Endpoint, LoadLimits, LoadPlan, PhasePlan
from vlmhyperbench_sdk.types import JsonValue

Scenario = Literal["offline", "single_stream", "multi_stream", "server", "interactive"]

WARMUP_PHASE, MEASURED_PHASE, BASELINE_PHASE = 0, 1, 2
MAX_CONVERSATIONS = 4096
"""That arrive at a rate: each has a stream of its own."""


_WARMUP_SEED = 0x77A2


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A load as a user describes it."""

    scenario: Scenario
    asked: Asked
    requests: int | None
    """How many are measured; None: as many as `duration_s` holds."""
    duration_s: float | None
    streams: int
    """Requests under way at a time; of `server`, connections that are ready before the clock starts."""
    arrivals: Arrivals | None
    """Of `server`, unless a trace is given."""
    trace: tuple[TracedRequest, ...]
    speed: float
    warmup: int
    timeout_s: float
    seed: int
    processes: int
    is_at_least: bool = False
    """The measurement lasts `duration_s` or longer, and has `min_requests` or more."""
    min_requests: int = 1
    samples_per_query: int = 0
    """Of multi_stream: the k-th requests of so many streams are query k; 0: there are no queries."""
    baseline: int = 0
    """Requests of multi_stream that are sent one after the other first, to compare with."""
    conversations: int | None = None
    """Of interactive; None: as many as arrive in `duration_s`. Without arrivals each stream holds one at a time."""
    turns: int = 1
    """Of each conversation."""
    think_s: float = 0.0
    """From the end of an answer to the next turn."""
    max_in_flight: int | None = None
    """Of `server`: connections that it may come to; beyond them a request waits. None: what the load generator says."""

    @property
    def is_open_loop(self) -> bool:
        """Whether a schedule says when requests leave."""
        return self.scenario == "server" or (self.scenario == "interactive" and self.arrivals is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLoad:
    """What was planned."""

    requests: int
    open_loop: OpenLoop | None
    grouping: Grouping


def check_load(workload: Workload) -> None:
    """See that a load can be planned, without planning it.

    Raises:
        InvalidInput: the description contradicts itself or asks for too much.
    """
    if not workload.trace and workload.requests is not None and workload.duration_s is not None:
        raise InvalidInput(
            "--requests and --duration exclude each other: one says how many, the other how long.",
            cure="Leave one of them out.",
        )
    if workload.scenario == "interactive":
        _check_conversations(workload)
    if workload.baseline and workload.scenario != "multi_stream":
        raise InvalidInput(f"--baseline does not fit {workload.scenario}.", cure="Take --scenario multi_stream.")
    if workload.max_in_flight is not None:
        _check_connections(workload, workload.max_in_flight)
    instants = _instants(workload)
    if instants is None:
        count = workload.conversations if workload.scenario == "interactive" else workload.requests
        is_empty = count == 0
    else:
        is_empty = instants.size == 0
    if is_empty:
        raise InvalidInput("There is nothing to send.", cure="Give --requests, or a longer --duration.")
    if instants is None and workload.duration_s is None:
        _check_streams(workload)
    if workload.scenario == "interactive" and instants is not None and instants.size > MAX_CONVERSATIONS:
        raise InvalidInput(
            f"{instants.size} conversations would arrive, and each needs a stream: {MAX_CONVERSATIONS} at most.",
            cure="Give a smaller --rate, --duration or --conversations.",
        )


def _check_connections(workload: Workload, max_in_flight: int) -> None:
    if workload.scenario != "server":
        raise InvalidInput(
            f"--max-in-flight does not fit {workload.scenario}: no schedule opens connections there.",
            cure="Leave it out; --concurrency says how many requests are under way.",
        )
    if workload.streams > max_in_flight:
        raise InvalidInput(
            f"{workload.streams} connections are ready before the start, and --max-in-flight allows {max_in_flight}.",
            cure=f"Give a --concurrency of at most {max_in_flight}, or a larger --max-in-flight.",
        )


def _check_streams(workload: Workload) -> None:
    is_talk = workload.scenario == "interactive"
    count = workload.conversations if is_talk else workload.requests
    if workload.scenario != "single_stream" and count is not None and count < workload.streams:
        what = "conversations" if is_talk else "requests"
        raise InvalidInput(
            f"{count} {what} cannot keep {workload.streams} streams busy.",
            cure=f"Give at least --{what} {workload.streams}, better several times that, or a smaller --concurrency.",
        )


def _check_conversations(workload: Workload) -> None:
    if workload.requests is not None or workload.trace:
        raise InvalidInput(
            "interactive holds conversations: it takes no --requests and no --trace.",
            cure="Give --conversations and --turns.",
        )
    if workload.arrivals is None and (workload.duration_s is not None or workload.conversations is None):
        raise InvalidInput(
            "interactive without a rate holds --conversations, and lasts as long as they do: it takes no --duration.",
            cure="Give --conversations, or a --rate of conversations with --duration.",
        )
    if (workload.duration_s is None) == (workload.conversations is None):
        raise InvalidInput(
            "--conversations and --duration exclude each other: one says how many, the other how long.",
            cure="Give one of them.",
        )


def write_load(folder: Path, workload: Workload, endpoint: Endpoint) -> WrittenLoad:
    """Write the plan's folder.

    Raises:
        InvalidInput: the description contradicts itself or asks for too much.
        OSError: the disk is full.
    """
    check_load(workload)
    instants = _instants(workload)
    if instants is None and workload.scenario != "interactive" and workload.requests is None:
        raise InvalidInput(f"How many requests of {workload.scenario} last so long is not known yet.")
    if workload.scenario == "interactive":
        sent = _write_conversations(folder, workload, instants)
    else:
        sent = _write_requests(folder, workload, instants)
    phases = [sent.phase]
    if workload.baseline:
        phases.insert(
            0, PhasePlan(no=BASELINE_PHASE, kind="baseline", count=workload.baseline, params={"in_flight": 1})
        )
    if workload.warmup:
        warmup = min(sent.streams, workload.warmup)
        phases.insert(0, PhasePlan(no=WARMUP_PHASE, kind="warmup", count=workload.warmup, params={"in_flight": warmup}))
    plan = LoadPlan(
        version=PLAN_VERSION,
        phases=tuple(phases),
        endpoint=endpoint,
        limits=LoadLimits(request_timeout_s=workload.timeout_s),
        seed=workload.seed,
        processes=workload.processes,
        extra_body=workload.asked.extra_body,
    )
    schedules = {MEASURED_PHASE: instants} if "arrivals" in sent.phase.params and instants is not None else {}
    write_plan(folder, plan=plan, requests=sent.table, schedules=schedules, turns=sent.turns, places=sent.places)
    open_loop = None
    if instants is not None:
        cv = workload.arrivals.cv if workload.arrivals is not None else 1.0
        open_loop = OpenLoop(process=_process(workload), scheduled_ns=instants, cv=cv)
    grouping = Grouping(
        streams=sent.streams if instants is None else 1,
        is_by_stream=workload.scenario == "multi_stream",
        samples_per_query=workload.samples_per_query,
        baseline_phase=BASELINE_PHASE if workload.baseline else None,
        pixels=sent.pixels or None,
    )
    return WrittenLoad(requests=sent.phase.count or 0, open_loop=open_loop, grouping=grouping)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """What the plan's tables hold."""

    phase: PhasePlan
    table: RequestTable
    streams: int
    pixels: list[int]
    turns: list[tuple[int, int, int]]
    places: list[tuple[int, int, int, int]]


def _write_requests(folder: Path, workload: Workload, instants: Instants | None) -> _Sent:
    count = workload.requests or 0 if instants is None else int(instants.size)
    streams = 1 if workload.scenario == "single_stream" else min(workload.streams, count)
    pixels: list[int] = []
    bodies = make_bodies(
        workload.asked,
        workload.warmup + workload.baseline + count,
        pixels,
        seed=workload.seed,
        trace=workload.trace,
        warmup=workload.warmup,
    )
    written = write_bodies(folder, bodies)
    lengths = {WARMUP_PHASE: workload.warmup, BASELINE_PHASE: workload.baseline, MEASURED_PHASE: count}
    # Where all ask the same, there is one body.
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
    return _Sent(
        phase=PhasePlan(no=MEASURED_PHASE, kind=workload.scenario, count=count, params=params),
        table=table,
        streams=streams,
        pixels=pixels[workload.warmup + workload.baseline :],
        turns=[],
        places=[],
    )


def _write_conversations(folder: Path, workload: Workload, instants: Instants | None) -> _Sent:
    """Lay conversations out; those that arrive at a rate have a stream each, on which the first turn waits its time."""
    count = workload.conversations or 0 if instants is None else int(instants.size)
    streams = min(workload.streams, count) if instants is None else count
    # Other conversations than those that are measured, so that no cache knows them.
    warmup = make_turns(workload.asked, conversations=workload.warmup, turns=1, seed=workload.seed ^ _WARMUP_SEED)
    talks = make_turns(workload.asked, conversations=count, turns=workload.turns, seed=workload.seed)
    laid: list[TurnBody] = []

    def bodies() -> Iterator[bytes]:
        for turn in chain(warmup, talks):
            laid.append(dataclasses.replace(turn, body=b""))
            yield turn.body

    table = write_bodies(folder, bodies())
    measured, rows = laid[workload.warmup :], table[workload.warmup :]
    table["phase"][: workload.warmup] = WARMUP_PHASE
    rows["phase"], rows["ordinal"] = MEASURED_PHASE, np.arange(len(rows))
    rows["sample"] = talk = np.array([turn.conversation for turn in measured], dtype=np.int64)
    rows["turn"] = [turn.turn for turn in measured]
    first_ns = 0 if instants is None else instants[talk]
    rows["think_ns"] = np.where(rows["turn"] > 0, round(workload.think_s * NS_PER_S), first_ns)
    if instants is not None:
        rows["stream"] = talk
    return _Sent(
        phase=PhasePlan(no=MEASURED_PHASE, kind="interactive", count=len(rows), params={"in_flight": streams}),
        table=table,
        streams=streams,
        pixels=[turn.pixels for turn in measured if turn.pixels],
        turns=[(MEASURED_PHASE, ordinal, turn.conversation) for ordinal, turn in enumerate(measured)],
        places=[
            (MEASURED_PHASE, ordinal, answer_of, offset)
            for ordinal, turn in enumerate(measured)
            for answer_of, offset in enumerate(turn.places)
        ],
    )


def _process(workload: Workload) -> Literal["constant", "poisson", "gamma", "burst", "ramp", "trace"]:
    return "trace" if workload.trace or workload.arrivals is None else workload.arrivals.process


def _instants(workload: Workload) -> Instants | None:
    """Draw or read when the requests of an open loop leave; None of a closed loop."""
    if workload.scenario == "interactive" and workload.arrivals is None:
        return None
    if not workload.is_open_loop:
        if workload.arrivals is not None or workload.trace:
            raise InvalidInput(
                f"{workload.scenario} sends when the one before has ended: it has no rate or trace.",
                cure="Take --scenario server, or leave --rate and --trace out.",
            )
        return None
    if workload.trace:
        instants = trace_instants([request.timestamp_s for request in workload.trace], speed=workload.speed)
        if workload.duration_s is not None:
            instants = instants[instants < workload.duration_s * NS_PER_S]
        return instants[: workload.requests]
    if workload.arrivals is None:
        raise InvalidInput("server needs a rate.", cure="Give --rate, or --trace.")
    if workload.duration_s is not None:
        if not workload.is_at_least:
            return arrivals_within(workload.arrivals, duration_s=workload.duration_s, seed=workload.seed)
        # What is measured begins with the first arrival, and ends no earlier than the first one after the duration.
        first_s = float(draw_arrivals(workload.arrivals, count=1, seed=workload.seed)[0]) / NS_PER_S
        lasts_s = first_s + workload.duration_s
        within = arrivals_within(workload.arrivals, duration_s=lasts_s, seed=workload.seed)
        count = max(int(within.size) + 1, -(-workload.min_requests // workload.turns))
        return draw_arrivals(workload.arrivals, count=count, seed=workload.seed)
    given = workload.conversations if workload.scenario == "interactive" else workload.requests
    return draw_arrivals(workload.arrivals, count=given or 0, seed=workload.seed)
