"""Fill the load plan's folder: rendered requests become bodies by the adapter's `to_engine`, and a table of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vlmhyperbench.data.images import image_key
from vlmhyperbench.load.plan import BODIES, RequestTable, blank_requests, write_plan
from vlmhyperbench.storage import Storage
from vlmhyperbench_inference_worker.bodies import BodyOrder
from vlmhyperbench_inference_worker.conversations import cut_marks, marked
from vlmhyperbench_inference_worker.phases import Phases
from vlmhyperbench_inference_worker.requests import PlannedRequest
from vlmhyperbench_inference_worker.serving import Serving
from vlmhyperbench_inference_worker.work import Work
from vlmhyperbench_sdk.load import (
    PLAN_VERSION,
    Endpoint,
    LoadLimits,
    LoadPlan,
)


async def fill(
    folder: Path,
    work: Work,
    serving: Serving,
    *,
    phases: Phases,
    storage: Storage,
) -> None:
    """Write bodies, requests table and `plan.json`, in this order.

    Raises:
        InvalidInput: the engine cannot do what a request asks.
        Unavailable: the child that writes bodies ended, or an image cannot be read.
    """
    hashes = list({image.sha256 for request in phases.requests for image in request.images})
    paths = await storage.open_all([(image_key(sha256), sha256) for sha256 in hashes])
    images = dict(zip(hashes, paths, strict=True))
    rendered = folder / "rendered.jsonl"
    await asyncio.to_thread(_write_rendered, rendered, phases.requests)
    await serving.bodies.write(
        BodyOrder(
            backend_class=serving.wanted.target.backend_class, requests=rendered, out=folder / BODIES, images=images
        )
    )
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
    await asyncio.to_thread(_write, folder, plan, phases, round(spec.scenario.think_s * 1e9))


def _write_rendered(path: Path, planned: Sequence[PlannedRequest]) -> None:
    with path.open("w", encoding="utf-8") as lines:
        for place, request in enumerate(planned):
            lines.write(f'{{"ordinal": {place}, "request": {marked(request)}}}\n')


def _write(folder: Path, plan: LoadPlan, phases: Phases, think_ns: int) -> None:
    """Write `plan.json` and the tables beside the bodies."""
    offsets_path = folder / f"{BODIES}.npy"
    offsets = np.load(offsets_path, allow_pickle=False)
    offsets_path.unlink()
    turns = [(one.phase, one.ordinal, one.conversation) for one in phases.requests if one.conversation is not None]
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
