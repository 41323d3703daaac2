"""REPORT: read the data of a run or an experiment, make the report in a child, and store its files under the claim."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from uuid import UUID

from vlmhyperbench.data.images import image_key
from vlmhyperbench.db import artifacts, events, experiments, listings, runs
from vlmhyperbench.domain.outcomes import Complete, Outcome, Preempted
from vlmhyperbench.domain.specs import MetricSpec, ReportWriterSpec, RunSpec
from vlmhyperbench.domain.states import experiment_state
from vlmhyperbench.domain.steps import Stage
from vlmhyperbench.errors import Damaged, NotFound
from vlmhyperbench.events import EventType
from vlmhyperbench.monitoring.recording import count
from vlmhyperbench.reports.bundles import Draft, ReportFile, RunBundle
from vlmhyperbench.scoring.metrics import is_combined_apart
from vlmhyperbench.storage import Storage, Stored
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench.worker.metric_hosts import hosts_of
from vlmhyperbench_reporter.plugin_writers import FailedWriter, write_by_plugins
from vlmhyperbench_reporter.reading import read_bundle
from vlmhyperbench_reporter.work import as_json, compose_comparison, compose_run, render, warm_up

log = logging.getLogger(__name__)

FORMATS = ("markdown", "html", "json")
_STEPS = 3
_MAX_PAGES_BYTES = 256 * 1024 * 1024
"""Maximum size of the pages that a report reads; the last page may exceed it."""


async def handle_report(job: ClaimedJob) -> Outcome:
    """Do a REPORT job; data from which no report can be made fails it for good."""
    await job.progress(done=0, total=_STEPS)
    requested = await (_of_run(job) if job.job.scope == "run" else _of_experiment(job))
    draft = requested.draft
    await job.progress(done=1, total=_STEPS)
    if job.draining.is_set():
        return Preempted()
    pages = await _pages(job.runtime.storage, draft.images)
    written, failed = await _written_by_plugins(job, requested)
    limitations = [writer.in_words for writer in failed]
    files = (*await job.run_cpu(render, draft, pages, formats=requested.formats, limitations=limitations), *written)
    await job.progress(done=2, total=_STEPS)
    stored = await asyncio.to_thread(_store, job, files)
    await _commit(job, list(zip(files, stored, strict=True)), draft, failed)
    count("reports_total")
    await job.progress(done=_STEPS, total=_STEPS)
    return Complete(data={"files": [file.name for file in files]})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Requested:
    """A report with the formats in which it is to be written."""

    draft: Draft
    formats: Sequence[str]
    """Built-in formats."""
    writers: Sequence[ReportWriterSpec]
    """Formats of plugins."""


async def _of_run(job: ClaimedJob) -> _Requested:
    (bundle,) = await _read(job, [job.run_id])
    wanted = bundle.spec.get("reports", FORMATS)
    formats = [name for name in FORMATS if isinstance(wanted, Sequence) and name in wanted]
    async with hosts_of(job, _combined_apart([bundle])) as hosts:
        draft = await job.run_cpu(compose_run, replace(bundle, hosts=hosts))
    return _Requested(draft=draft, formats=formats, writers=_writers([bundle]))


async def _of_experiment(job: ClaimedJob) -> _Requested:
    experiment_id = job.stream_id
    async with job.runtime.database.transaction() as session:
        experiment = await experiments.get(session, experiment_id)
        members = await runs.of_experiment(session, experiment_id)
    if experiment is None:
        raise NotFound(f"There is no experiment {experiment_id}.")
    bundles = await _read(job, [run.id for run in members])
    # The experiment ends only with this report, so the report states how its runs ended.
    state = experiment_state([run.state for run in members])
    async with hosts_of(job, _combined_apart(bundles)) as hosts:
        prepared = [replace(bundle, hosts=hosts) for bundle in bundles]
        draft = await job.run_cpu(compose_comparison, str(experiment_id), experiment.name, state.value, prepared)
    return _Requested(draft=draft, formats=FORMATS, writers=_writers(bundles))


def _combined_apart(bundles: Sequence[RunBundle]) -> list[MetricSpec]:
    """Return the metrics whose values only their code, in their own environment, can combine."""
    wanted: list[MetricSpec] = []
    for bundle in bundles:
        descriptions = {file.identity.get("name"): file.identity.get("description") for file in bundle.measures}
        metrics = RunSpec.model_validate(bundle.spec).metrics
        wanted += [metric for metric in metrics if is_combined_apart(metric, descriptions.get(metric.name))]
    return wanted


def _writers(bundles: Sequence[RunBundle]) -> list[ReportWriterSpec]:
    """Return the plugins that runs request; of two with the same name that of the later run, so each file has one."""
    writers: dict[str, ReportWriterSpec] = {}
    for bundle in bundles:
        wanted = bundle.spec.get("reports")
        for form in wanted if isinstance(wanted, Sequence) else ():
            if isinstance(form, Mapping):
                writer = ReportWriterSpec.model_validate(form)
                writers[writer.name] = writer
    return list(writers.values())


async def _written_by_plugins(job: ClaimedJob, requested: _Requested) -> tuple[list[ReportFile], list[FailedWriter]]:
    if not requested.writers:
        return [], []
    return await write_by_plugins(await job.run_cpu(as_json, requested.draft), requested.writers)


async def _read(job: ClaimedJob, run_ids: Sequence[UUID]) -> list[RunBundle]:
    """Read the runs while a child imports the modules that it needs for the report."""
    _, bundles = await asyncio.gather(job.run_cpu(warm_up), _read_all(job, run_ids))
    return bundles


async def _read_all(job: ClaimedJob, run_ids: Sequence[UUID]) -> list[RunBundle]:
    return [await read_bundle(job.runtime, run_id) for run_id in run_ids]


async def _pages(storage: Storage, images: Sequence[str]) -> dict[str, bytes]:
    """Read the pages of a report up to a total size; a damaged page is left out with a warning."""
    pages: dict[str, bytes] = {}
    size = 0
    for sha256 in images:
        if size >= _MAX_PAGES_BYTES:
            break
        try:
            path = await storage.open(image_key(sha256), sha256)
        except Damaged as error:
            log.warning("The report does not show a page: %s", error)
            continue
        pages[sha256] = await asyncio.to_thread(path.read_bytes)
        size += len(pages[sha256])
    return pages


def _store(job: ClaimedJob, files: Sequence[ReportFile]) -> list[Stored]:
    owner = "runs" if job.job.scope == "run" else "experiments"
    folder = f"{owner}/{job.stream_id}/reports/{job.claim_id}"
    return [
        job.runtime.storage.put(f"{folder}/{file.name}", file.content, media_type=file.media_type) for file in files
    ]


async def _commit(
    job: ClaimedJob,
    files: Sequence[tuple[ReportFile, Stored]],
    draft: Draft,
    failed: Sequence[FailedWriter],
) -> None:
    """Record the files, which are in storage already, and store a run's scores, in a single fenced transaction."""
    is_run = job.job.scope == "run"
    async with job.transaction() as session:
        if is_run and draft.headline is not None:
            await runs.set_headline(session, job.run_id, draft.headline)
            await listings.set_columns(session, job.run_id, draft.columns)
        for file, stored in files:
            artifact_id = await artifacts.add(
                session,
                project_id=job.job.project_id,
                claim_id=job.claim_id,
                kind=file.kind,
                name=file.name,
                media_type=file.media_type,
                storage_key=stored.key,
                sha256=stored.sha256,
                size_bytes=stored.size_bytes,
                run_id=job.job.run_id if is_run else None,
                experiment_id=None if is_run else job.job.experiment_id,
            )
            if file.media_type in {"image/svg+xml", "image/webp"}:
                continue
            await events.append(
                session,
                stream_id=job.stream_id,
                type=EventType.ARTIFACT_READY,
                data={
                    "artifact_id": str(artifact_id),
                    "name": file.name,
                    "kind": file.kind,
                    "media_type": file.media_type,
                    "size_bytes": stored.size_bytes,
                },
                job_id=job.job.id,
                stage=Stage.REPORT,
            )
        for writer in failed:
            await events.append(
                session,
                stream_id=job.stream_id,
                type=EventType.REPORT_INCOMPLETE,
                data=asdict(writer),
                job_id=job.job.id,
                stage=Stage.REPORT,
            )
