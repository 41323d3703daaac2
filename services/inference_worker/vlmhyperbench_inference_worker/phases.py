"""The phases of one claim, in the order in which they are driven: warm-up, baseline, then what the job is about."""

from __future__ import annotations

from dataclasses import dataclass

from vlmhyperbench.domain.arrivals import Arrivals, Instants, draw_arrivals
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.conversations import converse
from vlmhyperbench_inference_worker.requests import PlannedRequest
from vlmhyperbench_inference_worker.work import Work, plan_requests
from vlmhyperbench_sdk.load import PhaseKind, PhasePlan
from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """What a claim is to drive."""

    plans: list[PhasePlan]
    requests: list[PlannedRequest]
    schedules: dict[int, Instants]
    """Phase → when its requests are sent, of open loops."""

    @property
    def measured(self) -> int:
        """Number of the phase that the job is about; it is driven last."""
        return self.plans[-1].no


def _measured_kind(work: Work) -> PhaseKind:
    """Return the kind of the phase that the job is about."""
    return work.spec.scenario.kind if work.is_timed else work.phase_kind


def _measured_params(work: Work) -> JsonObject:
    """Say how that phase is driven."""
    scenario = work.spec.scenario
    params: JsonObject = {"in_flight": min(scenario.streams, len(work.missing))}
    return params if scenario.arrivals is None else {**params, "arrivals": scenario.arrivals.process}


async def open_phases(job: ClaimedJob, work: Work) -> Phases:
    """Open the phases that the job does not have yet, and plan their requests; none where nothing can be asked.

    Raises:
        InvalidInput: a prompt or a schedule cannot be made.
        Fenced: the claim is lost.
    """
    phase, ordinals, scenario = job.job.phase, work.readable, work.spec.scenario
    if work.is_timed or phase is None:
        phase = await job.open_phase(_measured_kind(work), params=_measured_params(work), count=len(work.missing))
    warmup, baseline = (scenario.warmup_requests, scenario.baseline_requests) if ordinals else (0, 0)
    chosen = work.draw_uncounted(warmup + baseline, ordinals)
    uncounted: list[tuple[PhaseKind, list[int], int]] = [
        ("warmup", chosen[:warmup], scenario.streams),
        ("baseline", chosen[-baseline:] if baseline else [], 1),
    ]
    plans, requests = list[PhasePlan](), list[PlannedRequest]()
    for kind, asked, streams in uncounted:
        if not asked:
            continue
        params: JsonObject = {"in_flight": streams}
        no = await job.open_phase(kind, params=params, count=len(asked), is_own=False)
        plans.append(PhasePlan(no=no, kind=kind, count=len(asked), params=params))
        requests += await plan_requests(work, asked, phase=no)
    plans.append(PhasePlan(no=phase, kind=_measured_kind(work), count=len(ordinals), params=_measured_params(work)))
    measured = await plan_requests(work, ordinals, phase=phase)
    requests += converse(measured, turns=scenario.turns) if scenario.kind == "interactive" else measured
    schedules = {}
    if scenario.arrivals is not None and ordinals:
        arrivals = Arrivals(**scenario.arrivals.model_dump())
        schedules[phase] = draw_arrivals(arrivals, count=len(ordinals), seed=scenario.seed)
    return Phases(plans=plans, requests=requests, schedules=schedules)
