"""Watch a run while it is asked: score what is sealed, pair it with the baseline, and say when enough is known.

Answers are taken in the random order in which they were asked, without gaps: one that came early waits for those
before it, since fast answers may be the easier ones. How often this looks decides only how much is asked in vain.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Literal
from uuid import UUID

import polars

from vlmhyperbench.analysis.sequential import (
    Decision,
    PairedSequence,
    Rule,
    certain_after,
    decide,
    gains,
    gains_of,
    request_order,
)
from vlmhyperbench.data import manifest
from vlmhyperbench.db import facts, manifests, phases, runs
from vlmhyperbench.db.views import RunView
from vlmhyperbench.domain.planning import ACCURACY_PHASE, are_paired
from vlmhyperbench.domain.specs import MetricSpec, RunSpec, StopRule
from vlmhyperbench.domain.states import PhaseState, RunState
from vlmhyperbench.errors import NotFound
from vlmhyperbench.facts.read import read_facts
from vlmhyperbench.scoring.metrics import open_metric
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_eval_worker.measuring import FACT_COLUMNS, measure_metric
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject

LOOK_S = 0.5
LONGEST_WAIT_S = 2.0
"""New answers wait for others so long at most before they are scored."""
WORTH_SCORING = 0.02
"""Of what is scored already: so many new answers are scored at once."""

UNDECIDED = "undecided"
_ANSWERED = frozenset({PhaseState.COMPLETE, PhaseState.STOPPED})
_OVER = _ANSWERED | {PhaseState.VOID}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """What is the same at every look."""

    rule: StopRule
    metric: MetricSpec
    direction: Literal["higher", "lower"]
    """In which the metric is better."""
    keys: Sequence[str]
    """Of each sample."""
    unreadable: frozenset[int]
    """Samples that cannot be asked, and have no row before the inference ends."""
    order: Sequence[int]
    """Ordinals as they are asked."""
    baseline: RunView
    values: Mapping[tuple[str, int], float | None]
    """(key, repeat) → value of the baseline."""


async def watch(job: ClaimedJob, run: RunView, spec: RunSpec, rule: StopRule) -> JsonObject:
    """Look until the run's inference is over, and return what its rule came to, as the report tells it.

    Ends early, and says nothing of use, where the run is cancelled or the worker drains.

    Raises:
        InvalidInput: the metric can stop no run.
        NotFound: the baseline or a file of it does not exist any more.
        Fenced: the claim is lost.
    """
    metric = next((one for one in spec.metrics if one.label == rule.metric), None)
    if metric is None:
        raise NotFound(f"The run is not scored by {rule.metric}, by which it should stop.")
    description = await job.run_cpu(describe, metric)
    low, high, direction = gains_of(description)
    keys, unreadable = await _samples(job, run)
    sequence = PairedSequence(alpha=rule.alpha, low=low, high=high, total_units=len(keys), largest_unit=spec.decoding.n)
    certain_after(_rule(rule, len(keys)), sequence)  # refuses a margin that no gain can reach
    baseline = await _baseline(job, run, spec, rule)
    while not await _is_answered(job, baseline):
        if not await _is_asking(job, run.id):
            return _told(rule, baseline, sequence, None, state="no_baseline")
        await _pause(job)
    pairing = Pairing(
        rule=rule,
        metric=metric,
        direction=direction,
        keys=keys,
        unreadable=unreadable,
        order=request_order(keys, repeats=spec.decoding.n, seed=rule.seed),
        baseline=baseline,
        values=await _values(job, baseline, spec, metric),
    )
    return await _follow(job, run, spec, pairing, sequence)


def describe(metric: MetricSpec) -> MetricDescription:
    """Say what a metric is: its code runs in a child only."""
    return open_metric(metric).description


async def _follow(
    job: ClaimedJob, run: RunView, spec: RunSpec, pairing: Pairing, sequence: PairedSequence
) -> JsonObject:
    """Feed the sequence with what comes until inference is over; a decision is written down at once."""
    repeats, fed_at, is_asking, decision = spec.decoding.n, time.monotonic(), True, None
    while is_asking:
        is_asking = await _is_asking(job, run.id)
        fed = sequence.units * repeats
        new = await _sealed(job, run.id, pairing, fed, repeats) if decision is None else []
        waited_s = time.monotonic() - fed_at
        if new and (len(new) >= fed * WORTH_SCORING or waited_s >= LONGEST_WAIT_S or not is_asking):
            await _feed(job, run, spec, pairing, sequence, new)
            # The longer the sequence, the longer this takes: a second and more of 50,000 samples.
            rule = _rule(pairing.rule, len(pairing.keys))
            fed_at, decision = time.monotonic(), await asyncio.to_thread(decide, rule, sequence)
            if decision is not None:
                await _stop(job, run, _told(pairing.rule, pairing.baseline, sequence, decision))
        if is_asking:
            await _pause(job)
    return await asyncio.to_thread(_told, pairing.rule, pairing.baseline, sequence, decision)


async def _feed(
    job: ClaimedJob,
    run: RunView,
    spec: RunSpec,
    pairing: Pairing,
    sequence: PairedSequence,
    ordinals: Sequence[int],
) -> None:
    values = await _values(job, run, spec, pairing.metric, ordinals=ordinals)
    places = [(pairing.keys[one % len(pairing.keys)], one // len(pairing.keys)) for one in ordinals]
    found = gains(
        [pairing.values.get(place) for place in places],
        [values.get(place) for place in places],
        direction=pairing.direction,
    )
    sequence.update(found, [spec.decoding.n] * (len(ordinals) // spec.decoding.n))


async def _values(
    job: ClaimedJob, run: RunView, spec: RunSpec, metric: MetricSpec, *, ordinals: Sequence[int] | None = None
) -> dict[tuple[str, int], float | None]:
    """Score answers of a run by the rule's metric, as this run's SCORE does: (key, repeat) → value."""
    rows = await read_facts(job.runtime.database, job.runtime.storage, run.id, payload=("text",), ordinals=ordinals)
    measured = await job.run_cpu(
        measure_metric,
        rows.select(FACT_COLUMNS),
        metric,
        extractor=spec.extractors[0],
        on_model_failure=spec.on_model_failure,
        on_invalid=spec.on_invalid,
    )
    values = polars.read_parquet(io.BytesIO(measured.content), columns=["phase", "ordinal", "value"])
    named = rows.select("phase", "ordinal", "key", "repeat").join(values, on=["phase", "ordinal"], how="left")
    return {(key, repeat): value for key, repeat, value in named.select("key", "repeat", "value").iter_rows()}


async def _sealed(job: ClaimedJob, run_id: UUID, pairing: Pairing, fed: int, repeats: int) -> list[int]:
    """Return the next ordinals in order that have their rows or will never be asked, whole samples only."""
    async with job.runtime.database.transaction() as session:
        present = await facts.ordinals(session, run_id, ACCURACY_PHASE)
    samples = len(pairing.keys)
    found = list(
        takewhile(lambda one: one in present or one % samples in pairing.unreadable, islice(pairing.order, fed, None))
    )
    return found[: len(found) // repeats * repeats]


async def _stop(job: ClaimedJob, run: RunView, told: JsonObject) -> None:
    async with job.transaction() as session:
        await runs.stop(session, run.id, told)
    await job.runtime.bus.push_wake()


async def _baseline(job: ClaimedJob, run: RunView, spec: RunSpec, rule: StopRule) -> RunView:
    async with job.runtime.database.transaction() as session:
        named = await runs.get(session, rule.baseline, project_id=run.project_id) if rule.baseline else None
        others = await runs.of_experiment(session, run.experiment_id) if run.experiment_id else []
    found = named or next((one for one in others if are_paired(one.pinned_spec(), spec)), None)
    if found is None or found.id == run.id:
        raise NotFound("The run has no baseline to compare with.", cure="Name one in the stop rule.")
    return found


async def _is_answered(job: ClaimedJob, baseline: RunView) -> bool:
    """Whether the baseline's inference is over, so that every answer that it has can be paired."""
    async with job.runtime.database.transaction() as session:
        now = await runs.get(session, baseline.id)
        phase = await phases.get(session, baseline.id, ACCURACY_PHASE)
    is_asked = phase is not None and phase.kind == "accuracy" and phase.state in _ANSWERED
    return is_asked or (now is not None and now.state in {RunState.SUCCEEDED, RunState.PARTIAL})


async def _is_asking(job: ClaimedJob, run_id: UUID) -> bool:
    if _is_let_go(job):
        return False
    async with job.runtime.database.transaction() as session:
        phase = await phases.get(session, run_id, ACCURACY_PHASE)
    return phase is not None and phase.state not in _OVER


async def _samples(job: ClaimedJob, run: RunView) -> tuple[list[str], frozenset[int]]:
    """Return the key of each sample, and those that cannot be asked."""
    async with job.runtime.database.transaction() as session:
        found = await manifests.get(session, run.manifest_id or "")
    if found is None:
        raise NotFound(f"The sample manifest of the run {run.id} does not exist.")
    path = await job.runtime.storage.open(found.storage_key, found.id)
    frame = await asyncio.to_thread(manifest.read, path)
    broken = frame.filter(polars.col("error").is_not_null())["index"]
    return frame["key"].to_list(), frozenset(broken.to_list())


async def _pause(job: ClaimedJob) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in (job.cancelled, job.draining)]
    await asyncio.wait(waits, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


def _is_let_go(job: ClaimedJob) -> bool:
    return job.cancelled.is_set() or job.draining.is_set()


def _rule(rule: StopRule, samples: int) -> Rule:
    return Rule(kind=rule.rule, margin=rule.margin, min_units=min(rule.min_samples, samples))


def _told(
    rule: StopRule, baseline: RunView, sequence: PairedSequence, decision: Decision | None, *, state: str = UNDECIDED
) -> JsonObject:
    """Say where the rule stands, in JSON: written on the run when it is certain, and told in the report either way."""
    if decision is None:
        low, high = sequence.interval()
        samples, unscored = sequence.counts(sequence.units)
        units = sequence.units
    else:
        state = "shown" if decision.is_shown else "refuted"
        low, high, units = decision.low, decision.high, decision.units
        samples, unscored = decision.samples, decision.unscored
    return {
        "rule": rule.label,
        "state": state,
        "alpha": rule.alpha,
        "baseline": str(baseline.id),
        "baseline_name": baseline.name,
        "samples": units,
        "of": sequence.total_units,
        "answers": samples,
        "unscored": unscored,
        "low": low,
        "high": high,
    }
