"""Write the plan of a load: bodies, phases and schedule are complete before any clock starts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np

from vlmhyperbench.analysis.load_design import Grouping, OpenLoop
from vlmhyperbench.domain.arrivals import Instants
from vlmhyperbench.domain.units import NS_PER_S
from vlmhyperbench.load.bodies import TurnBody, make_bodies, make_turns
from vlmhyperbench.load.plan import RequestTable, write_bodies, write_plan
from vlmhyperbench.load.workload import Workload, check_load, schedule_of
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.load import PLAN_VERSION, Endpoint, LoadLimits, LoadPlan, PhasePlan
from vlmhyperbench_sdk.types import JsonValue

WARMUP_PHASE, MEASURED_PHASE, BASELINE_PHASE = 0, 1, 2
_WARMUP_SEED = 0x77A2


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLoad:
    """Facts about a planned load that its result needs."""

    requests: int
    open_loop: OpenLoop | None
    grouping: Grouping


def write_load(folder: Path, workload: Workload, endpoint: Endpoint) -> WrittenLoad:
    """Write the plan of a load into a folder.

    Raises:
        InvalidInput: the description contradicts itself or asks for too much.
        OSError: the disk is full.
    """
    check_load(workload)
    instants = schedule_of(workload)
    if instants is None and workload.scenario != "interactive" and workload.requests is None:
        message = f"The load of the scenario {workload.scenario} has a duration, but no number of requests."
        raise InvalidInput(message, cure="Set requests; a short measurement shows how many last the duration.")
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
        open_loop = OpenLoop(process=_arrival_process(workload), scheduled_ns=instants, cv=cv)
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
        params["arrivals"] = _arrival_process(workload)
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


def _arrival_process(workload: Workload) -> Literal["constant", "poisson", "gamma", "burst", "ramp", "trace"]:
    return "trace" if workload.trace or workload.arrivals is None else workload.arrivals.process
