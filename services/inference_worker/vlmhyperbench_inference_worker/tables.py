"""Write the files of a load plan next to the bodies: the rendered requests, `plan.json` and the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from vlmhyperbench.domain.arrivals import Instants
from vlmhyperbench.load.plan import BODIES, RequestTable, blank_requests, write_plan
from vlmhyperbench_inference_worker.conversations import cut_marks, marked
from vlmhyperbench_inference_worker.requests import PlannedRequest
from vlmhyperbench_sdk.load import LoadPlan


def write_rendered(path: Path, requests: Sequence[PlannedRequest]) -> None:
    """Write one rendered request per line, for the child that writes bodies."""
    with path.open("w", encoding="utf-8") as lines:
        for index, request in enumerate(requests):
            lines.write(f'{{"ordinal": {index}, "request": {marked(request)}}}\n')


def write_tables(
    folder: Path,
    plan: LoadPlan,
    requests: Sequence[PlannedRequest],
    *,
    schedules: Mapping[int, Instants],
    think_ns: int,
) -> None:
    """Write `plan.json` and the tables; the bodies of the requests are in the folder already."""
    offsets_path = folder / f"{BODIES}.npy"
    offsets = np.load(offsets_path, allow_pickle=False)
    offsets_path.unlink()
    turns = [
        (request.phase, request.ordinal, request.conversation)
        for request in requests
        if request.conversation is not None
    ]
    places = cut_marks(folder / BODIES, offsets, requests) if turns else []
    table = _table(offsets, plan, requests, think_ns)
    for no in [phase.no for phase in plan.phases if phase.kind == "interactive"]:
        if (instants := schedules.get(no)) is not None:
            _begin_at(table, requests, no, instants)
    timed = {phase.no for phase in plan.phases if "arrivals" in phase.params}
    own = {no: instants for no, instants in schedules.items() if no in timed}
    write_plan(folder, plan=plan, requests=table, schedules=own, turns=turns, places=places)


def _table(offsets: np.ndarray, plan: LoadPlan, requests: Sequence[PlannedRequest], think_ns: int) -> RequestTable:
    table = blank_requests(len(requests))
    for name in ("phase", "ordinal", "sample", "repeat", "turn", "request_sha256"):
        table[name] = [getattr(request, name) for request in requests]
    table["body_offset"], table["body_bytes"] = offsets["offset"], offsets["bytes"]
    table["think_ns"] = np.where(table["turn"] > 0, think_ns, 0)
    for phase in plan.phases:
        if phase.kind == "multi_stream":
            own = table["phase"] == phase.no
            table["stream"][own] = np.arange(np.count_nonzero(own)) % int(str(phase.params["in_flight"]))
    return table


def _begin_at(table: RequestTable, requests: Sequence[PlannedRequest], phase: int, instants: Instants) -> None:
    """Give each conversation of a phase a stream of its own, whose first turn waits until its instant."""
    own = table["phase"] == phase
    numbers = [request.conversation or 0 for request in requests if request.phase == phase]
    conversations = np.array(numbers, dtype=np.int64)
    table["stream"][own] = conversations
    table["think_ns"][own] = np.where(table["turn"][own] > 0, table["think_ns"][own], instants[conversations])
