"""Plan a load: open its phases, and write the requests of all of them as the load generator reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from vlmhyperbench.data.images import image_key
from vlmhyperbench.domain.arrivals import Instants
from vlmhyperbench.domain.units import NS_PER_S
from vlmhyperbench.load.plan import BODIES
from vlmhyperbench.load.process import LoadProcess
from vlmhyperbench.storage import Storage
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.bodies import BodyOrder
from vlmhyperbench_inference_worker.requests import PlannedRequest
from vlmhyperbench_inference_worker.serving import Serving
from vlmhyperbench_inference_worker.tables import write_rendered, write_tables
from vlmhyperbench_inference_worker.work import Work
from vlmhyperbench_sdk.load import PLAN_VERSION, Endpoint, LoadLimits, LoadPlan, PhaseKind, PhasePlan
from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """What a claim is to drive."""

    plans: list[PhasePlan]
    """The phases in the order in which they are driven."""
    requests: list[PlannedRequest]
    """Of all phases; each names its own."""
    schedules: dict[int, Instants] = field(default_factory=dict)
    """Phase → when its requests are sent, of open loops; of conversations, when each begins."""

    @property
    def measured(self) -> int:
        """Number of the phase that the job is about; it is driven last."""
        return self.plans[-1].no


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is driven: which load generator sends which requests to which target."""

    process: LoadProcess
    phases: Phases
    serving: Serving


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A phase that has no number yet."""

    kind: PhaseKind
    requests: Sequence[PlannedRequest]
    params: JsonObject
    count: int
    """Rows that the phase will have."""
    is_own: bool = False
    """Whether it is the phase that the job is about."""


async def plan_load(job: ClaimedJob, work: Work, serving: Serving, process: LoadProcess) -> Load:
    """Open the phases that the job does not have yet, and write what the load generator needs, if anything is asked.

    Raises:
        InvalidInput: the instants cannot be drawn, or the engine cannot do what a request asks.
        Unavailable: the child that writes bodies ended, or an image cannot be read.
        Fenced: the claim is lost.
    """
    plans, requests = list[PhasePlan](), list[PlannedRequest]()
    for part in (_own(work), *_uncounted(work)):
        no = job.job.phase if part.is_own and not work.is_timed else None
        if no is None:
            no = await job.open_phase(part.kind, params=part.params, count=part.count, is_own=part.is_own)
        plans.append(PhasePlan(no=no, kind=part.kind, count=len(part.requests), params=part.params))
        requests += [replace(request, phase=no) for request in part.requests]
    own, *uncounted = plans
    instants = work.instants
    schedules = {own.no: instants} if instants is not None else {}
    phases = Phases(plans=[*uncounted, own], requests=requests, schedules=schedules)
    load = Load(process=process, phases=phases, serving=serving)
    if requests:
        await fill(load, work, job.runtime.storage)
    return load


async def fill(load: Load, work: Work, storage: Storage) -> None:
    """Write bodies, tables and `plan.json`, in this order.

    Raises:
        InvalidInput: the engine cannot do what a request asks.
        Unavailable: the child that writes bodies ended, or an image cannot be read.
    """
    folder, phases, serving = load.process.plan_folder, load.phases, load.serving
    hashes = list({image.sha256 for request in phases.requests for image in request.sent_images})
    paths = await storage.open_all([(image_key(sha256), sha256) for sha256 in hashes])
    rendered = folder / "rendered.jsonl"
    await asyncio.to_thread(write_rendered, rendered, phases.requests)
    order = BodyOrder(
        backend_class=serving.wanted.target.backend_class,
        requests=rendered,
        out=folder / BODIES,
        images=dict(zip(hashes, paths, strict=True)),
    )
    await serving.bodies.write(order)
    await asyncio.to_thread(rendered.unlink)
    measured, spec = serving.measured, work.spec
    limits = LoadLimits(
        request_timeout_s=spec.limits.request_timeout_s, tries=1 if work.is_timed else spec.limits.tries
    )
    plan = LoadPlan(
        version=PLAN_VERSION,
        phases=tuple(phases.plans),
        endpoint=Endpoint(url=measured.url, headers=measured.headers),
        limits=limits,
        seed=spec.scenario.seed,
        counts={"requests": len(phases.requests)},
    )
    think_ns = round(spec.scenario.think_s * NS_PER_S)
    await asyncio.to_thread(write_tables, folder, plan, phases.requests, schedules=phases.schedules, think_ns=think_ns)


def _own(work: Work) -> _Part:
    """Return the phase that the job is about."""
    scenario, instants = work.spec.scenario, work.instants
    params: JsonObject = {"in_flight": min(work.streams, len(work.missing))}
    if scenario.kind == "interactive" and instants is not None:
        params = {"in_flight": int(instants.size)}  # each conversation has a stream, in which it waits for its instant
    elif scenario.arrivals is not None:
        params = {**params, "arrivals": scenario.arrivals.process}
    return _Part(
        kind=scenario.kind if work.is_timed else work.facts_phase,
        requests=work.measured,
        params=params,
        count=len(work.missing),  # samples that cannot be read have rows too
        is_own=True,
    )


def _uncounted(work: Work) -> list[_Part]:
    """Return the warm-up and the baseline, where the scenario has them and anything can be asked."""
    scenario = work.spec.scenario
    warmup, baseline = scenario.warmup_requests, scenario.baseline_requests
    drawn = [work.requests[ordinal] for ordinal in work.uncounted[: warmup + baseline]]
    parts: list[tuple[PhaseKind, list[PlannedRequest], int]] = [
        ("warmup", drawn[:warmup], scenario.streams),
        ("baseline", drawn[-baseline:] if baseline else [], 1),
    ]
    return [
        _Part(kind=kind, requests=requests, params={"in_flight": streams}, count=len(requests))
        for kind, requests, streams in parts
        if requests
    ]
