"""Plan one run on paper: resolve it as a submission would, and say what is known of each part of it."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass

from vlmhyperbench.db import durations
from vlmhyperbench.db.durations import AnswerCost
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.judging import is_judge, judging_of
from vlmhyperbench.domain.publishing import public_spec
from vlmhyperbench.domain.run_plan import requests_of
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.registry.commands import command_of
from vlmhyperbench.summaries.manifest import configured
from vlmhyperbench.wire.manifests import ConfiguredValue
from vlmhyperbench.wire.plans import PlannedCost, PlannedRequests, PlannedSamples, PlannedTime, RunPlan
from vlmhyperbench.wire.runs import RunCreate
from vlmhyperbench_api.baselines import pin_baseline
from vlmhyperbench_api.needed import address_warnings, environments_of, memory_of
from vlmhyperbench_api.paper import Known, Papers, SampleCount, read_known, write_papers
from vlmhyperbench_api.submission.request import Submission
from vlmhyperbench_api.submission.resolving import pin_run, warnings_of

_SAMPLES = {
    "manifest": "its dataset was read before",
    "limit": "at most: its dataset was never read, and may have fewer",
    "unknown": "its dataset was never read, and no limit is set",
}
_S_PER_HOUR = 3600.0


async def dry_run(submission: Submission[RunCreate]) -> RunPlan:
    """Return the plan of a run.

    Raises:
        InvalidInput: as of a submission, with all errors.
    """
    runtime, body = submission.runtime, submission.body
    pinned = await asyncio.to_thread(pin_run, submission)
    async with runtime.database.transaction() as session:
        spec = await pin_baseline(session, pinned.spec, project_id=submission.project_id)
    known = await read_known(runtime, [spec], project_id=submission.project_id)
    papers = await asyncio.to_thread(write_papers, [(pinned.name, spec)], known)
    samples, time = known.samples[0], _time(spec, known, papers)
    requests = requests_of(spec, samples.count)
    answers = next((each.count for each in requests if each.kind == "answers"), None)
    command = command_of(body.run, name=body.name, priority=body.priority)
    configuration = configured(public_spec(spec), pinned.origins)
    return RunPlan(
        name=pinned.name,
        spec=public_spec(spec),
        spec_digest=digest_of(spec),
        configuration={path: ConfiguredValue.model_validate(value) for path, value in configuration.items()},
        warnings=[*warnings_of(submission, [spec]), *address_warnings(spec, runtime.settings.url_policy)],
        samples=PlannedSamples(count=samples.count, basis=samples.basis, note=_SAMPLES[samples.basis]),
        requests=[PlannedRequests.model_validate(asdict(each)) for each in requests],
        time=time,
        memory=memory_of(spec, known, papers),
        environments=await environments_of(spec, runtime.settings),
        cost=await _cost(submission, spec, answers, time),
        command=command.text,
        command_file=command.reads_file,
    )


def _time(spec: RunSpec, known: Known, papers: Papers) -> PlannedTime:
    if papers.expected.refused or (papers.expected.waiting and known.workers):
        return _untimed("no worker can take it")
    if not known.workers:
        return _untimed("no inference worker is live")
    if known.samples[0].count is None and not (spec.scenario.is_timed and spec.scenario.bound):
        return _untimed("the number of samples is not known")
    if papers.unknown and known.pace_of(spec) is not None:
        return _untimed("more than a year, if the dataset has so many samples")
    if papers.unknown:
        return _untimed("never measured: no run of this target and task has ended")
    judged = _judging_time(spec, known)
    if judged is None:
        return _untimed("the time of a judge was never measured")
    note = "inference and judges, one after the other," if judged.mean_s else "inference"
    return PlannedTime(
        expected_s=_sum(papers.expected.makespan_s, judged.mean_s),
        shortest_s=_sum(papers.shortest.makespan_s, judged.fastest_s),
        longest_s=_sum(papers.longest.makespan_s, judged.slowest_s),
        note=f"{note} on idle workers, at the pace of earlier runs{_at_most(known.samples[0])}",
    )


def _sum(inference_s: float | None, judging_s: float) -> float | None:
    return None if inference_s is None else inference_s + judging_s


@dataclass(frozen=True, slots=True)
class _Judging:
    """Seconds of all verdicts of a run's judges."""

    mean_s: float
    fastest_s: float
    slowest_s: float


def _judging_time(spec: RunSpec, known: Known) -> _Judging | None:
    """Return how long the judges of a run take; None if one of their targets was never measured."""
    asked = {each.metric: each.count for each in requests_of(spec, known.samples[0].count) if each.kind == "judge"}
    mean_s = fastest_s = slowest_s = 0.0
    for metric in filter(is_judge, spec.metrics):
        paces, count = known.verdicts.get(digest_of(judging_of(metric).target)), asked.get(metric.label)
        if paces is None or count is None:
            return None
        mean_s += paces.mean.seconds(count)
        fastest_s += paces.fastest.seconds(count)
        slowest_s += paces.slowest.seconds(count)
    return _Judging(mean_s, fastest_s, slowest_s)


def _at_most(samples: SampleCount) -> str:
    return "; at most, as the dataset may have fewer samples" if samples.basis == "limit" else ""


def _untimed(why: str) -> PlannedTime:
    return PlannedTime(expected_s=None, shortest_s=None, longest_s=None, note=why)


async def _cost(
    submission: Submission[RunCreate], spec: RunSpec, answers: int | None, time: PlannedTime
) -> PlannedCost:
    prices = spec.prices
    if prices is None:
        return PlannedCost(prices=None, total=None, low=None, high=None, currency=None, note=spec.unpriced or "")
    known = PlannedCost(
        prices=prices.in_words, total=None, low=None, high=None, currency=prices.currency, note=prices.origin
    )
    if prices.per_hour is not None:
        hours = [None if s is None else s / _S_PER_HOUR for s in (time.expected_s, time.shortest_s, time.longest_s)]
        total, low, high = (None if hour is None else hour * prices.per_hour for hour in hours)
        note = time.note if total is None else "the time of its inference, by the hour"
        return known.model_copy(update={"total": total, "low": low, "high": high, "note": note})
    each = await _cost_of_answer(submission, spec)
    if each is None or answers is None:
        why = "no earlier run of this target and task has a cost by these prices"
        return known.model_copy(update={"note": why if each is None else "the number of samples is not known"})
    bounds = {"total": each.mean * answers, "low": each.lowest * answers, "high": each.highest * answers}
    return known.model_copy(update={**bounds, "note": "the cost of an answer in earlier runs"})


async def _cost_of_answer(submission: Submission[RunCreate], spec: RunSpec) -> AnswerCost | None:
    prices = spec.model_dump(mode="json")["prices"]
    async with submission.runtime.database.transaction() as session:
        return await durations.measured_costs(
            session, spec.target_digest, spec.task, prices, project_id=submission.project_id
        )
