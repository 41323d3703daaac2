"""SCORE: read a run's facts, compute the measures of every metric in a child, store them under the claim."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import polars
from pydantic import JsonValue

from vlmhyperbench.db import evidence, measures, runs
from vlmhyperbench.db.views import RunView
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.identity import id_of, identify
from vlmhyperbench.domain.judging import is_judge
from vlmhyperbench.domain.outcomes import Complete, Outcome, Preempted, outcome_of
from vlmhyperbench.domain.specs import ImportTarget, RunSpec
from vlmhyperbench.errors import Fenced, NotFound, VlmHyperBenchError
from vlmhyperbench.facts.read import read_facts
from vlmhyperbench.scoring.extraction import TEXT
from vlmhyperbench.storage import Stored
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_eval_worker.measuring import FACT_COLUMNS, MeasuredMetric, measure_metric
from vlmhyperbench_eval_worker.stopping import watch
from vlmhyperbench_eval_worker.verdicts import beside, read_verdicts


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One metric on what one extractor read: measured, and stored."""

    measured: MeasuredMetric
    stored: Stored
    environment: str
    evaluation: dict[str, JsonValue]
    """Components of its evaluation identity."""


async def handle_score(job: ClaimedJob) -> Outcome:
    """Do one SCORE job; a metric that cannot be had fails the run, a metric that raises leaves rows unscored."""
    try:
        return await _score(job)
    except Fenced:
        raise
    except VlmHyperBenchError as error:
        return outcome_of(error)


async def _score(job: ClaimedJob) -> Outcome:
    runtime = job.runtime
    run, spec = await _read_run(job)
    payload = ("text", "reported") if isinstance(spec.target, ImportTarget) else ("text",)
    # Re-scored answers of a run that stopped early were asked long ago: only a job that began beside them watches.
    watches = spec.stop is not None and job.job.needs_state == "STARTED"
    stopping = await watch(job, run, spec, spec.stop) if spec.stop and watches else None
    if job.draining.is_set():
        return Preempted()
    facts = await read_facts(runtime.database, runtime.storage, job.run_id, payload=payload)
    engines = await _engines(job, facts)
    rows = facts.select(*FACT_COLUMNS, *payload[1:])
    wanted = [(metric, extractor) for extractor in spec.extractors for metric in spec.metrics if not is_judge(metric)]
    wanted += [(metric, TEXT) for metric in spec.metrics if is_judge(metric)]  # a judge reads what the model wrote
    total = rows.height * len(wanted)
    await job.progress(done=0, total=total)
    written: list[Written] = []
    for no, (metric, extractor) in enumerate(wanted):
        if job.draining.is_set():
            return Preempted()
        judged_by: list[tuple[str, str]] = []
        judged = rows
        if is_judge(metric):
            said = await read_verdicts(job, metric)
            judged = await asyncio.to_thread(beside, rows, said, metric, answers=run.total or 0)
            judged_by = await _engines(job, said)
        measured = await job.run_cpu(
            measure_metric,
            judged,
            metric,
            extractor=extractor,
            on_model_failure=spec.on_model_failure,
            on_invalid=spec.on_invalid,
        )
        key = f"runs/{job.run_id}/measures/{job.claim_id}/{no}-{_slug(metric.name)}.parquet"
        stored = await asyncio.to_thread(
            runtime.storage.put, key, measured.content, media_type="application/vnd.apache.parquet"
        )
        environment = digest_of(dict(measured.packages))
        evaluation = identify(
            spec,
            metric=metric,
            extractor=extractor,
            manifest_id=run.manifest_id,
            engines=engines,
            judges=judged_by,
            environment=environment,
        )
        written.append(Written(measured=measured, stored=stored, environment=environment, evaluation=evaluation))
        await job.progress(done=rows.height * (no + 1), total=total)
    await _commit(job, written)
    return Complete(
        data={
            "metrics": len(written),
            "rows": rows.height,
            "unscored": sum(one.measured.rows - one.measured.values for one in written),
            **({"stopping": stopping} if stopping else {}),
        }
    )


def _slug(name: str) -> str:
    """Make a metric's name fit for a storage key; the number before it keeps it unique."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:80]


async def _read_run(job: ClaimedJob) -> tuple[RunView, RunSpec]:
    async with job.runtime.database.transaction() as session:
        run = await runs.get(session, job.run_id)
    if run is None:
        raise NotFound(f"There is no run {job.run_id}.")
    return run, RunSpec.model_validate(run.spec)


async def _engines(job: ClaimedJob, facts: polars.DataFrame) -> list[tuple[str, str]]:
    """Name the engines that answered, whichever run they answered."""
    claim_ids = [UUID(claim_id) for claim_id in facts["claim_id"].unique().to_list()]
    async with job.runtime.database.transaction() as session:
        claims = await evidence.of_claims(session, claim_ids)
    engines = [found.claim.engine for found in claims if found.claim.engine]
    return [(str(engine.get("name", "")), str(engine.get("version", ""))) for engine in engines]


async def _commit(job: ClaimedJob, written: Sequence[Written]) -> None:
    """Reference the files, which lie in storage already, in one fenced transaction."""
    async with job.transaction() as session:
        for no, one in enumerate(written):
            await measures.add(
                session,
                run_id=job.run_id,
                claim_id=job.claim_id,
                no=no,
                job_id=job.job.id,
                storage_key=one.stored.key,
                sha256=one.stored.sha256,
                size_bytes=one.stored.size_bytes,
                rows=one.measured.rows,
                metrics=[{**one.measured.identity, "evaluation": one.evaluation}],
                environment=one.environment,
                evaluation_id=id_of(one.evaluation),
            )
