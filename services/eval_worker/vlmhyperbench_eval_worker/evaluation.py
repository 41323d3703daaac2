"""SCORE: read a run's facts, compute the measures of every metric in a child, store them under the claim."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import polars
from pydantic import JsonValue

from vlmhyperbench.db import evidence, measures, runs
from vlmhyperbench.db.views import MeasureManifestView, RunView
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.identity import id_of, identify
from vlmhyperbench.domain.judging import is_judge
from vlmhyperbench.domain.outcomes import Complete, Outcome, Preempted
from vlmhyperbench.domain.specs import ImportTarget, PackageRef, RunSpec
from vlmhyperbench.errors import NotFound
from vlmhyperbench.facts.read import read_facts
from vlmhyperbench.scoring.extraction import TEXT
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_eval_worker.kept_measures import Asked, environment_of, fingerprint, measures_of_parent, reused
from vlmhyperbench_eval_worker.measuring import FACT_COLUMNS, measure_metric
from vlmhyperbench_eval_worker.stopping import watch
from vlmhyperbench_eval_worker.verdicts import read_verdicts, with_verdicts
from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One metric on what one extractor read: measured and stored, or kept of the parent."""

    storage_key: str
    sha256: str
    size_bytes: int
    rows: int
    values: int
    """Rows that have a value."""
    identity: JsonObject
    environment: str
    fingerprint: str | None
    evaluation: dict[str, JsonValue]
    """Components of its evaluation identity."""
    is_kept: bool


async def handle_score(job: ClaimedJob) -> Outcome:
    """Do one SCORE job; a metric that cannot be had fails the run, a metric that raises leaves rows unscored."""
    runtime = job.runtime
    run, spec = await _read_run(job)
    payload = ("text", "reported") if isinstance(spec.target, ImportTarget) else ("text",)
    # Re-scored answers of a run that stopped early were asked long ago; nothing comes that could be watched.
    watches = spec.stop is not None and job.job.needs_state == "STARTED"
    stopping = await watch(job, run, spec, spec.stop) if spec.stop and watches else None
    if job.draining.is_set():
        return Preempted()
    facts = await read_facts(runtime.database, runtime.storage, job.run_id, payload=payload)
    engines = await _engines(job, facts)
    rows = facts.select(*FACT_COLUMNS, *payload[1:])
    wanted = [(metric, extractor) for extractor in spec.extractors for metric in spec.metrics if not is_judge(metric)]
    wanted += [(metric, TEXT) for metric in spec.metrics if is_judge(metric)]  # a judge reads what the model wrote
    known = await measures_of_parent(job, run, spec)
    await job.progress(done=0, total=rows.height * len(wanted))
    written: list[Written] = []
    for no, (metric, extractor) in enumerate(wanted):
        if job.draining.is_set():
            return Preempted()
        judged, judged_by = rows, list[tuple[str, str]]()
        if is_judge(metric):
            said = await read_verdicts(job, metric)
            judged = await asyncio.to_thread(with_verdicts, rows, said, metric, answers=run.total or 0)
            judged_by = await _engines(job, said)
        asked = Asked(spec=spec, manifest_id=run.manifest_id, metric=metric, extractor=extractor, rows=judged)
        made = await _kept(job, asked, known) or await _measured(job, asked, no=no)
        evaluation = identify(
            spec,
            metric=metric,
            extractor=extractor,
            manifest_id=run.manifest_id,
            engines=engines,
            judges=judged_by,
            environment=made.environment,
        )
        written.append(replace(made, evaluation=evaluation))
        await job.progress(done=rows.height * (no + 1), total=rows.height * len(wanted))
    await _commit(job, written)
    return Complete(
        data={
            "metrics": len(written),
            "kept": [f"{metric.identity['name']}@{metric.identity['profile']}" for metric in written if metric.is_kept],
            "rows": rows.height,
            "unscored": sum(metric.rows - metric.values for metric in written),
            **({"stopping": stopping} if stopping else {}),
        }
    )


async def _kept(job: ClaimedJob, asked: Asked, known: Mapping[str, MeasureManifestView]) -> Written | None:
    """Return what the parent measured of the same inputs, or None where it has to be measured."""
    if not known:
        return None
    environment = await job.run_cpu(environment_of, asked.metric)
    mark = await asyncio.to_thread(fingerprint, asked, environment=environment)
    found = known.get(mark)
    kept = await reused(job, found) if found is not None else None
    if kept is None:
        return None
    manifest = kept.manifest
    return Written(
        storage_key=manifest.storage_key,
        sha256=manifest.sha256,
        size_bytes=manifest.size_bytes,
        rows=manifest.rows,
        values=kept.values,
        identity={name: value for name, value in manifest.metrics[0].items() if name != "evaluation"},
        environment=environment,
        fingerprint=mark,
        evaluation={},
        is_kept=True,
    )


async def _measured(job: ClaimedJob, asked: Asked, *, no: int) -> Written:
    metric = asked.metric
    measured = await job.run_cpu(
        measure_metric,
        asked.rows,
        metric,
        extractor=asked.extractor,
        on_model_failure=asked.spec.on_model_failure,
        on_invalid=asked.spec.on_invalid,
    )
    key = f"runs/{job.run_id}/measures/{job.claim_id}/{no}-{_slug(metric.name)}.parquet"
    stored = await asyncio.to_thread(
        job.runtime.storage.put, key, measured.content, media_type="application/vnd.apache.parquet"
    )
    environment = digest_of(dict(measured.packages))
    mark = await asyncio.to_thread(fingerprint, asked, environment=environment)
    return Written(
        storage_key=stored.key,
        sha256=stored.sha256,
        size_bytes=stored.size_bytes,
        rows=measured.rows,
        values=measured.values,
        identity=measured.identity,
        environment=environment,
        # What a dotted path imports from elsewhere may change unseen: its measures are always computed.
        fingerprint=mark if isinstance(metric.package, PackageRef) or is_judge(metric) else None,
        evaluation={},
        is_kept=False,
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
                storage_key=one.storage_key,
                sha256=one.sha256,
                size_bytes=one.size_bytes,
                rows=one.rows,
                metrics=[{**one.identity, "evaluation": one.evaluation}],
                environment=one.environment,
                evaluation_id=id_of(one.evaluation),
                fingerprint=one.fingerprint,
            )
