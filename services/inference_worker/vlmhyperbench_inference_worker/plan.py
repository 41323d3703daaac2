"""Plan a load: open its phases, have bodies written by the adapter's `to_engine`, and write a table of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vlmhyperbench.data.images import image_key
from vlmhyperbench.domain.units import NS_PER_S
from vlmhyperbench.load.plan import BODIES, RequestTable, blank_requests, write_plan
from vlmhyperbench.load.process import LoadProcess
from vlmhyperbench.storage import Storage
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.bodies import BodyOrder
from vlmhyperbench_inference_worker.conversations import cut_marks, marked
from vlmhyperbench_inference_worker.phases import Phases, open_phases
from vlmhyperbench_inference_worker.requests import PlannedRequest
from vlmhyperbench_inference_worker.serving import Serving
from vlmhyperbench_inference_worker.work import Work
from vlmhyperbench_sdk.load import (
    PLAN_VERSION,
    Endpoint,
    LoadLimits,
    LoadPlan,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is driven: which load generator asks which target for what."""

    process: LoadProcess
    phases: Phases
    serving: Serving


async def plan_load(job: ClaimedJob, work: Work, serving: Serving, process: LoadProcess) -> Load:
    """Open the phases of a claim and write everything that its load generator needs.

    Raises:
        InvalidInput: a prompt cannot be made, or the engine cannot do what a request asks.
        Unavailable: the child that writes bodies ended, or an image cannot be read.
        Fenced: the claim is lost.
    """
    load = Load(process=process, phases=await open_phases(job, work), serving=serving)
    if load.phases.requests:
        await fill(load, work, job.runtime.storage)
    return load


async def fill(load: Load, work: Work, storage: Storage) -> None:
    """Write bodies, requests table and `plan.json`, in this order.

    Raises:
        InvalidInput: the engine cannot do what a request asks.
        Unavailable: the child that writes bodies ended, or an image cannot be read.
    """
    folder, phases, serving = load.process.plan_folder, load.phases, load.serving
    hashes = list({image.sha256 for request in phases.requests for image in request.images})
    paths = await storage.open_all([(image_key(sha256), sha256) for sha256 in hashes])
    rendered = folder / "rendered.jsonl"
    await asyncio.to_thread(_write_rendered, rendered, phases.requests)
    order = BodyOrder(
        backend_class=serving.wanted.target.backend_class,
        requests=rendered,
        out=folder / BODIES,
        images=dict(zip(hashes, paths, strict=True)),
    )
    await serving.bodies.write(order)
    await asyncio.to_thread(rendered.unlink)
    measured, spec = serving.measured, work.spec
    plan = LoadPlan(
        version=PLAN_VERSION,
        phases=tuple(phases.plans),
        endpoint=Endpoint(url=measured.url, headers=measured.headers),
        limits=LoadLimits(
            request_timeout_s=spec.limits.request_timeout_s, tries=1 if work.is_timed else spec.limits.tries
        ),
        seed=spec.scenario.seed,
        counts={"requests": len(phases.requests)},
    )
    await asyncio.to_thread(_write, folder, plan, phases, round(spec.scenario.think_s * NS_PER_S))


def _write_rendered(path: Path, planned: Sequence[PlannedRequest]) -> None:
    with path.open("w", encoding="utf-8") as lines:
        for place, request in enumerate(planned):
            lines.write(f'{{"ordinal": {place}, "request": {marked(request)}}}\n')


def _write(folder: Path, plan: LoadPlan, phases: Phases, think_ns: int) -> None:
    """Write `plan.json` and the tables beside the bodies."""
    offsets_path = folder / f"{BODIES}.npy"
    offsets = np.load(offsets_path, allow_pickle=False)
    offsets_path.unlink()
    turns = [
        (request.phase, request.ordinal, request.conversation)
        for request in phases.requests
        if request.conversation is not None
    ]
    places = cut_marks(folder / BODIES, offsets, phases.requests) if turns else []
    table = _table(offsets, phases, think_ns)
    write_plan(folder, plan=plan, requests=table, schedules=phases.schedules, turns=turns, places=places)


def _table(offsets: np.ndarray, phases: Phases, think_ns: int) -> RequestTable:
    planned = phases.requests
    table = blank_requests(len(planned))
    for name in ("phase", "ordinal", "sample", "repeat", "turn", "request_sha256"):
        table[name] = [getattr(request, name) for request in planned]
    table["body_offset"], table["body_bytes"] = offsets["offset"], offsets["bytes"]
    table["think_ns"] = np.where(table["turn"] > 0, think_ns, 0)
    for phase in phases.plans:
        if phase.kind == "multi_stream":
            own = table["phase"] == phase.no
            table["stream"][own] = np.arange(np.count_nonzero(own)) % int(str(phase.params["in_flight"]))
    return table
