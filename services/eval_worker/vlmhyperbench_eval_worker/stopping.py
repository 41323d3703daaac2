"""Watch the inference of a run with a stop rule: score its answers, pair them with the baseline, and stop the run.

`analysis.pairing.Pairing` is the value that decides; this module extends it with new rows after its cursor. The
interval between two looks does not affect the decision, only how many requests are sent after it was possible.
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
from vlmhyperbench.metric_process import MetricHost
from vlmhyperbench.scoring.measured import FACT_COLUMNS, measure_metric
from vlmhyperbench.scoring.metrics import Hosts, host_of, open_metric
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject

LOOK_S: Final = 0.5
MAX_WAIT_S: Final = 2.0
"""Maximum time that new answers wait for others before they are scored."""
MIN_GROWTH: Final = 0.02
"""Minimum size of a batch, as a share of the answers that are already scored."""
WINDOW: Final = 1000
"""Number of ordinals after the cursor that are read in one query; a look ends with the first window with a gap."""

UNDECIDED: Final = "undecided"
_ANSWERED = frozenset({PhaseState.COMPLETE, PhaseState.STOPPED})
_OVER = _ANSWERED | {PhaseState.VOID}


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The watched run, its rule and its baseline, which do not change between looks."""

    job: ClaimedJob
    run: RunView
    spec: RunSpec
    rule: StopRule
    metric: MetricSpec
    host: MetricHost | None
    """The environment that the metric pins, prepared; None if it pins none."""
    baseline: RunView


async def watch(job: ClaimedJob, run: RunView, spec: RunSpec, rule: StopRule, hosts: Hosts) -> JsonObject:
    """Watch until the run's inference has ended, and return the result of its rule, as the report states it.

    If the run is cancelled or the worker drains, it ends early and the result is not used.

    Raises:
        InvalidInput: the metric cannot be used in a stop rule.
        NotFound: the baseline no longer exists.
        Damaged: a stored file is missing or was changed.
        Fenced: the claim is lost.
    """
    metric = next((metric for metric in spec.metrics if metric.label == rule.metric), None)
    if metric is None:
        message = f"The run is not scored by {rule.metric}, the metric of its stop rule."
        raise NotFound(message, cure="Name one of the metrics of the run in the stop rule.")
    host = host_of(metric, hosts)
    pairing = await _begin(job, run, spec, rule, await job.run_cpu(describe, metric, host))
    baseline = await _baseline(job, run, spec, rule)
    watched = Watched(job=job, run=run, spec=spec, rule=rule, metric=metric, host=host, baseline=baseline)
    while not await _is_answered(watched):
        if not await _is_asking(watched):
            return _outcome(watched, pairing, None, state="no_baseline")
        await _pause(job)
    return await _follow(watched, replace(pairing, baseline=await _values(watched, baseline)))


def describe(metric: MetricSpec, host: MetricHost | None = None) -> MetricDescription:
    """Return a metric's description; call it in a child, since it loads the metric's code."""
    return open_metric(metric, host).description


async def _begin(
    job: ClaimedJob, run: RunView, spec: RunSpec, rule: StopRule, description: MetricDescription
) -> Pairing:
    """Return the initial pairing, without answers and without the baseline's values."""
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
    """Extend the pairing with new answers until the inference has ended; a decision is stored at once."""
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
    """Return the ordinals that `Pairing.ready` would return for all rows, but read only rows after the cursor.

    Args:
        pairing: the current pairing.
        present: returns which of the given ordinals have a row.
    """
    ready: set[int] = set()
    ahead = pairing.remaining
    while window := list(islice(ahead, WINDOW)):
        ready |= await present(window)
        if not all(pairing.is_known(ordinal, ready) for ordinal in window):
            break
    return pairing.ready(ready)


async def _values(
    watched: Watched, run: RunView, *, ordinals: Sequence[int] | None = None
) -> dict[tuple[str, int], float | None]:
    """Score answers of a run by the rule's metric, in the same way as SCORE: (key, repeat) → value."""
    job, spec = watched.job, watched.spec
    rows = await read_facts(job.runtime.database, job.runtime.storage, run.id, payload=("text",), ordinals=ordinals)
    measured = await job.run_cpu(
        measure_metric,
        rows.select(FACT_COLUMNS),
        watched.metric,
        host=watched.host,
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
    baseline = named or next((other for other in others if are_paired(other.pinned_spec(), spec)), None)
    if baseline is None or baseline.id == run.id:
        raise NotFound(f"The run {run.id} has no baseline.", cure="Name one in the stop rule.")
    return baseline


async def _is_answered(watched: Watched) -> bool:
    """Return whether the baseline's inference has ended, so that all its answers can be paired."""
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
    """Return the key of each sample, and the indices of those that cannot be asked."""
    async with job.runtime.database.transaction() as session:
        row = await manifests.get(session, run.manifest_id or "")
    if row is None:
        raise NotFound(f"The sample manifest of the run {run.id} does not exist.")
    path = await job.runtime.storage.open(row.storage_key, row.id)
    frame = await asyncio.to_thread(manifest.read, path)
    broken = frame.filter(polars.col("error").is_not_null())["index"]
    return frame["key"].to_list(), frozenset(broken.to_list())


async def _pause(job: ClaimedJob) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in (job.cancelled, job.draining)]
    await asyncio.wait(waits, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


def _outcome(watched: Watched, pairing: Pairing, decision: Decision | None, *, state: str = UNDECIDED) -> JsonObject:
    """Return the result of the rule as JSON; it is stored with the run once it is certain, and reported in any case."""
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
