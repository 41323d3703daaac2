"""Watch a run while it is asked: score what is sealed, pair it with the baseline, and say when enough is known.

What is paired and what follows from it is a value, `analysis.pairing.Pairing`; here it is fed. A look reads the rows
after the pairing's cursor. How often somebody looks decides only how much is asked in vain.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import polars

from vlmhyperbench.analysis.pairing import Pairing
from vlmhyperbench.analysis.sequential import Decision, Rule, certain_after, gains_of, request_order
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

LOOK_S: Final = 0.5
MAX_WAIT_S: Final = 2.0
"""New answers wait at most this long for others before they are scored."""
MIN_GROWTH: Final = 0.02
"""Score a batch once it adds this share to the answers already scored."""
WINDOW: Final = 1000
"""Ordinals after the cursor that are looked up at once; a look ends with the first window that has a gap."""

UNDECIDED: Final = "undecided"
_ANSWERED = frozenset({PhaseState.COMPLETE, PhaseState.STOPPED})
_OVER = _ANSWERED | {PhaseState.VOID}


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is watched: the same at every look."""

    job: ClaimedJob
    run: RunView
    spec: RunSpec
    rule: StopRule
    metric: MetricSpec
    baseline: RunView


async def watch(job: ClaimedJob, run: RunView, spec: RunSpec, rule: StopRule) -> JsonObject:
    """Look until the run's inference is over, and return what its rule came to, as the report states it.

    Ends early, and says nothing of use, where the run is cancelled or the worker drains.

    Raises:
        InvalidInput: the metric can stop no run.
        NotFound: the baseline does not exist any more.
        Damaged: a stored file that is needed is missing or changed.
        Fenced: the claim is lost.
    """
    metric = next((metric for metric in spec.metrics if metric.label == rule.metric), None)
    if metric is None:
        raise NotFound(f"The run is not scored by {rule.metric}, by which it should stop.")
    pairing = await _begin(job, run, spec, rule, await job.run_cpu(describe, metric))
    baseline = await _baseline(job, run, spec, rule)
    watched = Watched(job=job, run=run, spec=spec, rule=rule, metric=metric, baseline=baseline)
    while not await _is_answered(watched):
        if not await _is_asking(watched):
            return _outcome(watched, pairing, None, state="no_baseline")
        await _pause(job)
    return await _follow(watched, replace(pairing, baseline=await _values(watched, baseline)))


def describe(metric: MetricSpec) -> MetricDescription:
    """Say what a metric is: its code runs in a child only."""
    return open_metric(metric).description


async def _begin(
    job: ClaimedJob, run: RunView, spec: RunSpec, rule: StopRule, description: MetricDescription
) -> Pairing:
    """Return the pairing before the first answer, without the baseline's values."""
    low, high, direction = gains_of(description)
    keys, unreadable = await _samples(job, run)
    pairing = Pairing(
        rule=Rule(kind=rule.rule, margin=rule.margin, min_units=min(rule.min_samples, len(keys))),
        alpha=rule.alpha,
        low=low,
        high=high,
        direction=direction,
        keys=keys,
        repeats=spec.decoding.n,
        order=request_order(keys, repeats=spec.decoding.n, seed=rule.seed),
        unreadable=unreadable,
    )
    certain_after(pairing.rule, pairing.sequence)  # refuses a margin that no gain can reach
    return pairing


async def _follow(watched: Watched, pairing: Pairing) -> JsonObject:
    """Extend the pairing by what comes until inference is over; a decision is written down at once."""
    extended_at, is_asking, decision = time.monotonic(), True, None
    while is_asking:
        is_asking = await _is_asking(watched)
        new = await _ready(watched, pairing) if decision is None else []
        has_waited = time.monotonic() - extended_at >= MAX_WAIT_S or not is_asking
        if new and (len(new) >= pairing.cursor * MIN_GROWTH or has_waited):
            pairing = pairing.extended(new, await _values(watched, watched.run, ordinals=new))
            extended_at, decision = time.monotonic(), await asyncio.to_thread(_decision, pairing)
            if decision is not None:
                await _stop(watched, _outcome(watched, pairing, decision))
        if is_asking:
            await _pause(watched.job)
    return await asyncio.to_thread(_outcome, watched, pairing, decision)


def _decision(pairing: Pairing) -> Decision | None:
    return pairing.decision


async def _ready(watched: Watched, pairing: Pairing) -> list[int]:
    async with watched.job.runtime.database.transaction() as session:

        async def present(ordinals: Sequence[int]) -> set[int]:
            return await facts.present(session, watched.run.id, ACCURACY_PHASE, ordinals)

        return await read_ready(pairing, present)


async def read_ready(pairing: Pairing, present: Callable[[Sequence[int]], Awaitable[set[int]]]) -> list[int]:
    """Return what `Pairing.ready` would of all rows, but read only rows after the cursor.

    Args:
        pairing: so far.
        present: says which of some ordinals have a row.
    """
    found: set[int] = set()
    ahead = pairing.remaining
    while window := list(islice(ahead, WINDOW)):
        found |= await present(window)
        if not all(pairing.is_known(ordinal, found) for ordinal in window):
            break
    return pairing.ready(found)


async def _values(
    watched: Watched, run: RunView, *, ordinals: Sequence[int] | None = None
) -> dict[tuple[str, int], float | None]:
    """Score answers of a run by the rule's metric, as the watched run's SCORE does: (key, repeat) → value."""
    job, spec = watched.job, watched.spec
    rows = await read_facts(job.runtime.database, job.runtime.storage, run.id, payload=("text",), ordinals=ordinals)
    measured = await job.run_cpu(
        measure_metric,
        rows.select(FACT_COLUMNS),
        watched.metric,
        extractor=spec.extractors[0],
        on_model_failure=spec.on_model_failure,
        on_invalid=spec.on_invalid,
    )
    values = polars.read_parquet(io.BytesIO(measured.content), columns=["phase", "ordinal", "value"])
    named = rows.select("phase", "ordinal", "key", "repeat").join(values, on=["phase", "ordinal"], how="left")
    return {(key, repeat): value for key, repeat, value in named.select("key", "repeat", "value").iter_rows()}


async def _stop(watched: Watched, outcome: JsonObject) -> None:
    async with watched.job.transaction() as session:
        await runs.stop(session, watched.run.id, outcome)
    await watched.job.runtime.bus.push_wake()


async def _baseline(job: ClaimedJob, run: RunView, spec: RunSpec, rule: StopRule) -> RunView:
    async with job.runtime.database.transaction() as session:
        named = await runs.get(session, rule.baseline, project_id=run.project_id) if rule.baseline else None
        others = await runs.of_experiment(session, run.experiment_id) if run.experiment_id else []
    found = named or next((other for other in others if are_paired(other.pinned_spec(), spec)), None)
    if found is None or found.id == run.id:
        raise NotFound("The run has no baseline to compare with.", cure="Name one in the stop rule.")
    return found


async def _is_answered(watched: Watched) -> bool:
    """Whether the baseline's inference is over, so that every answer that it has can be paired."""
    async with watched.job.runtime.database.transaction() as session:
        now = await runs.get(session, watched.baseline.id)
        phase = await phases.get(session, watched.baseline.id, ACCURACY_PHASE)
    is_asked = phase is not None and phase.kind == "accuracy" and phase.state in _ANSWERED
    return is_asked or (now is not None and now.state in {RunState.SUCCEEDED, RunState.PARTIAL})


async def _is_asking(watched: Watched) -> bool:
    if watched.job.cancelled.is_set() or watched.job.draining.is_set():
        return False
    async with watched.job.runtime.database.transaction() as session:
        phase = await phases.get(session, watched.run.id, ACCURACY_PHASE)
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


def _outcome(watched: Watched, pairing: Pairing, decision: Decision | None, *, state: str = UNDECIDED) -> JsonObject:
    """Say in JSON where the rule stands: written on the run once it is certain, and stated in the report either way."""
    sequence = pairing.sequence
    if decision is None:
        low, high = sequence.interval()
        units = sequence.units
        samples, unscored = sequence.counts(units)
    else:
        state = "shown" if decision.is_shown else "refuted"
        low, high, units = decision.low, decision.high, decision.units
        samples, unscored = decision.samples, decision.unscored
    return {
        "rule": watched.rule.label,
        "state": state,
        "alpha": watched.rule.alpha,
        "baseline": str(watched.baseline.id),
        "baseline_name": watched.baseline.name,
        "samples": units,
        "of": sequence.total_units,
        "answers": samples,
        "unscored": unscored,
        "low": low,
        "high": high,
    }
