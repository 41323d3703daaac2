"""SCORE: read a run's facts, compute the measures of each metric in a child, store them under the claim."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

import polars
from pydantic import JsonValue

from vlmhyperbench.db import evidence, measures, runs
from vlmhyperbench.db.claims import ClaimRecord
from vlmhyperbench.db.views import RunView
from vlmhyperbench.domain.identity import id_of, identify
from vlmhyperbench.domain.judging import is_judge
from vlmhyperbench.domain.outcomes import Complete, Outcome, Preempted
from vlmhyperbench.domain.specs import ImportTarget, RunSpec
from vlmhyperbench.errors import NotFound
from vlmhyperbench.facts.read import read_facts
from vlmhyperbench.monitoring.recording import counted
from vlmhyperbench.monitoring.tracing import span
from vlmhyperbench.scoring.extraction import TEXT
from vlmhyperbench.scoring.measured import FACT_COLUMNS
from vlmhyperbench.scoring.metrics import Hosts, host_of
from vlmhyperbench.summaries.manifest import METRICS
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench.worker.metric_hosts import hosts_of
from vlmhyperbench_eval_worker.stopping import watch
from vlmhyperbench_eval_worker.stored_measures import MetricInput, StoredMeasures, measure, measures_of_parent, reuse
from vlmhyperbench_eval_worker.verdicts import read_verdicts, with_verdicts
from vlmhyperbench_sdk.types import JsonObject


async def handle_score(job: ClaimedJob) -> Outcome:
    """Do one SCORE job; a metric that cannot be loaded fails the run, a metric that raises leaves rows unscored."""
    run, spec = await _read_run(job)
    async with hosts_of(job, spec.metrics) as hosts:
        hosted = {metric.label: host for metric in spec.metrics if (host := host_of(metric, hosts)) is not None}
        if hosted:
            packages: JsonObject = {label: dict(host.packages) for label, host in hosted.items()}
            await job.record_claim(ClaimRecord(environment={METRICS: packages}))
        return await _score(job, run, spec, hosts)


async def _score(job: ClaimedJob, run: RunView, spec: RunSpec, hosts: Hosts) -> Outcome:
    # The answers of a re-scored run are complete, so there is nothing to watch.
    is_watching = spec.stop is not None and job.job.needs_state == "STARTED"
    stopping = await watch(job, run, spec, spec.stop, hosts) if spec.stop and is_watching else None
    if job.draining.is_set():
        return Preempted()
    payload = ("text", "reported") if isinstance(spec.target, ImportTarget) else ("text",)
    facts = await read_facts(job.runtime.database, job.runtime.storage, job.run_id, payload=payload)
    engines = await _engines(job, facts)
    rows = facts.select(*FACT_COLUMNS, *payload[1:])
    wanted = [(metric, extractor) for extractor in spec.extractors for metric in spec.metrics if not is_judge(metric)]
    wanted += [(metric, TEXT) for metric in spec.metrics if is_judge(metric)]  # a judge reads the model's whole text
    known = await measures_of_parent(job, run, spec)
    await job.progress(done=0, total=rows.height * len(wanted))
    written: list[tuple[StoredMeasures, dict[str, JsonValue]]] = []
    for no, (metric, extractor) in enumerate(wanted):
        if job.draining.is_set():
            return Preempted()
        scored, judge_engines = rows, list[tuple[str, str]]()
        if is_judge(metric):
            verdicts = await read_verdicts(job, metric)
            scored = await asyncio.to_thread(with_verdicts, rows, verdicts, metric, answers=run.total or 0)
            judge_engines = await _engines(job, verdicts)
        source = MetricInput(
            spec=spec,
            manifest_id=run.manifest_id,
            metric=metric,
            extractor=extractor,
            host=host_of(metric, hosts),
            rows=scored,
        )
        with span("metric", {"metric": metric.name}), counted("evaluations_total"):
            stored = await reuse(job, source, known) or await measure(job, source, no=no)
        evaluation = identify(
            spec,
            metric=metric,
            extractor=extractor,
            manifest_id=run.manifest_id,
            examples_id=run.examples_id,
            engines=engines,
            judges=judge_engines,
            environment=stored.environment,
            packages=source.host.packages if source.host is not None else None,
        )
        written.append((stored, evaluation))
        await job.progress(done=rows.height * (no + 1), total=rows.height * len(wanted))
    await _commit(job, written)
    files = [stored for stored, _ in written]
    return Complete(
        data={
            "metrics": len(files),
            "reused": [f"{file.identity['name']}@{file.identity['profile']}" for file in files if file.is_reused],
            "rows": rows.height,
            "unscored": sum(file.rows - file.values for file in files),
            **({"stopping": stopping} if stopping else {}),
        }
    )


async def _read_run(job: ClaimedJob) -> tuple[RunView, RunSpec]:
    async with job.runtime.database.transaction() as session:
        run = await runs.get(session, job.run_id)
    if run is None:
        raise NotFound(f"There is no run {job.run_id}.")
    return run, run.pinned_spec()


async def _engines(job: ClaimedJob, facts: polars.DataFrame) -> list[tuple[str, str]]:
    """Return name and version of the engines that answered, including those of reused answers."""
    claim_ids = [UUID(claim_id) for claim_id in facts["claim_id"].unique().to_list()]
    async with job.runtime.database.transaction() as session:
        claims = await evidence.of_claims(session, claim_ids)
    engines = [record.claim.engine for record in claims if record.claim.engine]
    return [(str(engine.get("name", "")), str(engine.get("version", ""))) for engine in engines]


async def _commit(job: ClaimedJob, written: Sequence[tuple[StoredMeasures, dict[str, JsonValue]]]) -> None:
    """Add the manifests of the stored files, with their evaluation identities, in one fenced transaction."""
    async with job.transaction() as session:
        for no, (stored, evaluation) in enumerate(written):
            await measures.add(
                session,
                run_id=job.run_id,
                claim_id=job.claim_id,
                no=no,
                job_id=job.job.id,
                storage_key=stored.storage_key,
                sha256=stored.sha256,
                size_bytes=stored.size_bytes,
                rows=stored.rows,
                metrics=[{**stored.identity, "evaluation": evaluation}],
                environment=stored.environment,
                evaluation_id=id_of(evaluation),
                fingerprint=stored.fingerprint,
            )
