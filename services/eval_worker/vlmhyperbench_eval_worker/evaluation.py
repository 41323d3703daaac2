"""SCORE: read a run's facts, compute the measures of every metric in a child, store them under the claim."""

from __future__ import annotations

import asyncio
import re

from vlmhyperbench.db import measures, runs
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.outcomes import Complete, Outcome, Preempted, outcome_of
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.errors import Fenced, NotFound, VlmHyperBenchError
from vlmhyperbench.facts.read import read_facts
from vlmhyperbench.scoring.extraction import DEFAULT_EXTRACTOR
from vlmhyperbench.storage import Stored
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_eval_worker.measuring import FACT_COLUMNS, MeasuredMetric, measure_metric

_PAYLOAD = ("text",)


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
    spec = await _read_spec(job)
    facts = await read_facts(runtime.database, runtime.storage, job.run_id, payload=_PAYLOAD)
    rows = facts.select(FACT_COLUMNS)
    total = rows.height * len(spec.metrics)
    await job.progress(done=0, total=total)
    written: list[tuple[MeasuredMetric, Stored]] = []
    for no, metric in enumerate(spec.metrics):
        if job.draining.is_set():
            return Preempted()
        measured = await job.run_cpu(
            measure_metric, rows, metric, extractor=DEFAULT_EXTRACTOR, on_model_failure=spec.on_model_failure
        )
        key = f"runs/{job.run_id}/measures/{job.claim_id}/{no}-{_slug(metric.name)}.parquet"
        stored = await asyncio.to_thread(
            runtime.storage.put, key, measured.content, media_type="application/vnd.apache.parquet"
        )
        written.append((measured, stored))
        await job.progress(done=rows.height * (no + 1), total=total)
    await _commit(job, written)
    return Complete(
        data={
            "metrics": len(written),
            "rows": rows.height,
            "unscored": sum(measured.rows - measured.values for measured, _ in written),
        }
    )


def _slug(name: str) -> str:
    """Make a metric's name fit for a storage key; the number before it keeps it unique."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:80]


async def _read_spec(job: ClaimedJob) -> RunSpec:
    async with job.runtime.database.transaction() as session:
        run = await runs.get(session, job.run_id)
    if run is None:
        raise NotFound(f"There is no run {job.run_id}.")
    return RunSpec.model_validate(run.spec)


async def _commit(job: ClaimedJob, written: list[tuple[MeasuredMetric, Stored]]) -> None:
    """Reference the files, which lie in storage already, in one fenced transaction."""
    async with job.transaction() as session:
        for no, (measured, stored) in enumerate(written):
            await measures.add(
                session,
                run_id=job.run_id,
                claim_id=job.claim_id,
                no=no,
                job_id=job.job.id,
                storage_key=stored.key,
                sha256=stored.sha256,
                size_bytes=stored.size_bytes,
                rows=measured.rows,
                metrics=[measured.identity],
                environment=digest_of(dict(measured.packages)),
            )
