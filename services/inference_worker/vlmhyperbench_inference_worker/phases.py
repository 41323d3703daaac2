"""The phases of one claim: warm-up and baseline first, then the phase that the job is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vlmhyperbench.domain.arrivals import Arrivals, Instants, draw_arrivals
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.requests import PlannedRequest
from vlmhyperbench_inference_worker.work import Work
from vlmhyperbench_sdk.load import PhaseKind, PhasePlan
from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """What a claim is to drive."""

    plans: list[PhasePlan]
    """The phases in the order in which they are driven."""
    requests: list[PlannedRequest]
    schedules: dict[int, Instants]
    """Phase → when its requests are sent, of open loops."""

    @property
    def measured(self) -> int:
        """Number of the phase that the job is about; it is driven last."""
        return self.plans[-1].no


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A phase that has no number yet."""

    kind: PhaseKind
    requests: Sequence[PlannedRequest]
    params: JsonObject


async def open_phases(job: ClaimedJob, work: Work) -> Phases:
    """Open the phases that the job does not have yet; none of them has requests where nothing can be asked.

    Raises:
        InvalidInput: a schedule cannot be made.
        Fenced: the claim is lost.
    """
    own, scenario, no = _own(work), work.spec.scenario, job.job.phase
    if work.is_timed or no is None:
        # Samples that cannot be read have a row in it too.
        no = await job.open_phase(own.kind, params=own.params, count=len(work.missing))
    plans, requests = list[PhasePlan](), list[PlannedRequest]()
    for part in (*_uncounted(work), own):
        part_no = no
        if part is not own:
            part_no = await job.open_phase(part.kind, params=part.params, count=len(part.requests), is_own=False)
        plans.append(PhasePlan(no=part_no, kind=part.kind, count=len(part.requests), params=part.params))
        requests += [replace(request, phase=part_no) for request in part.requests]
    schedules = {}
    if scenario.arrivals is not None and own.requests:
        arrivals = Arrivals(**scenario.arrivals.model_dump())
        schedules[no] = draw_arrivals(arrivals, count=len(own.requests), seed=scenario.seed)
    return Phases(plans=plans, requests=requests, schedules=schedules)


def _own(work: Work) -> _Part:
    """Return the phase that the job is about."""
    scenario = work.spec.scenario
    params: JsonObject = {"in_flight": min(scenario.streams, len(work.missing))}
    if scenario.arrivals is not None:
        params = {**params, "arrivals": scenario.arrivals.process}
    return _Part(kind=scenario.kind if work.is_timed else work.facts_phase, requests=work.measured, params=params)


def _uncounted(work: Work) -> list[_Part]:
    """Return the warm-up and the baseline, where the scenario has them and anything can be asked."""
    scenario = work.spec.scenario
    warmup, baseline = scenario.warmup_requests, scenario.baseline_requests
    drawn = [work.requests[ordinal] for ordinal in work.uncounted[: warmup + baseline]]
    parts = (
        _Part(kind="warmup", requests=drawn[:warmup], params={"in_flight": scenario.streams}),
        _Part(kind="baseline", requests=drawn[-baseline:] if baseline else [], params={"in_flight": 1}),
    )
    return [part for part in parts if part.requests]
