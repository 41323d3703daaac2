"""INDEX: enumerate a dataset in a child, and store its images and its sample manifest by content hash."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import PurePosixPath

from pydantic import TypeAdapter

from vlmhyperbench.bounded import ChildBounds, run_bounded
from vlmhyperbench.data.addresses import ImageAddresses
from vlmhyperbench.data.datasets import on_this_machine
from vlmhyperbench.data.enumerating import IndexResult, index_in_bounds, index_in_child
from vlmhyperbench.data.examples import Drawn, draw_in_child, with_local_files
from vlmhyperbench.data.manifest import manifest_key
from vlmhyperbench.data.repositories import Arrival
from vlmhyperbench.db import manifests
from vlmhyperbench.db.claims import ClaimRecord
from vlmhyperbench.db.views import SampleManifestView
from vlmhyperbench.domain.datasets import is_archive, is_elsewhere
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.outcomes import Complete, Outcome
from vlmhyperbench.domain.specs import ANSWERS_DATASET, DatasetSpec, FewShotSpec, Limits, PackageRef
from vlmhyperbench.scoring.metrics import host_of
from vlmhyperbench.storage import STORAGE_SCHEME
from vlmhyperbench.summaries.manifest import METRICS
from vlmhyperbench.worker.claims import PROGRESS_S, ClaimedJob
from vlmhyperbench.worker.metric_hosts import hosts_of
from vlmhyperbench_sdk.types import JsonObject

BOUNDS = ChildBounds(memory_bytes=4 * 1024**3, cpu_s=3600, wall_s=7200)
"""Limits of the child that enumerates a file of answers, whose samples may have large images."""

MAX_FETCH_S = 24 * 3600.0
"""How long fetching a dataset may take; what has arrived is kept."""


async def handle_index(job: ClaimedJob) -> Outcome:
    """Do one INDEX job; an error of the dataset fails the run, an error of one sample does not."""
    spec = DatasetSpec.model_validate(job.job.params["dataset"])
    limits = Limits.model_validate(job.job.params.get("limits", {}))
    digest = str(job.job.params["dataset_digest"])
    known = await _known(job, spec, digest)
    if known is not None:
        return await _complete(job, spec, limits, known.id, known.samples, known.unreadable)
    await job.progress(done=0, total=spec.limit)
    # The children hold no keys of the storage, because they run code of plugins or read files of others.
    async with job.runtime.storage.staged(job.settings.home / "work") as storage_url:
        if spec.type == ANSWERS_DATASET:  # an untrusted file, read by our own code
            local = await _on_this_machine(job, spec)
            asked = local.model_dump(mode="json"), limits.model_dump(mode="json"), storage_url
            answer = await run_bounded(index_in_bounds, *asked, what="the file of answers", bounds=BOUNDS)
            result = TypeAdapter(IndexResult).validate_python(answer)
        else:
            async with hosts_of(job, [spec]) as hosts, _fetched(job, spec) as local:
                host = host_of(spec, hosts)
                if host is not None:
                    used: JsonObject = {METRICS: {f"dataset {spec.name}": dict(host.packages)}}
                    await job.record_claim(ClaimRecord(environment=used))
                addresses = ImageAddresses.of(job.settings)
                result = await job.run_cpu(index_in_child, local, limits, storage_url, host, addresses)
    await _commit(job, result, digest)
    await job.progress(done=result.samples, total=result.samples)
    return await _complete(job, spec, limits, result.manifest_id, result.samples, result.unreadable)


async def _drawn(job: ClaimedJob, asked: DatasetSpec, limits: Limits, manifest_id: str) -> Drawn | None:
    """Draw the examples of the prompt, if it has any, without the samples that are asked."""
    if "few_shot" not in job.job.params:
        return None
    few_shot = FewShotSpec.model_validate(job.job.params["few_shot"])
    samples = await job.runtime.storage.open(manifest_key(manifest_id), manifest_id)
    dataset = few_shot.dataset
    async with (
        job.runtime.storage.staged(job.settings.home / "work") as storage_url,
        hosts_of(job, [dataset]) as hosts,
        _fetched(job, dataset) as local,
    ):
        given, same = with_local_files(few_shot, asked, local)
        host = host_of(dataset, hosts)
        addresses = ImageAddresses.of(job.settings)
        drawn = await job.run_cpu(draw_in_child, given, same, samples, limits, storage_url, host, addresses)
    await _commit(job, drawn.stored, digest_of(few_shot))
    return drawn


async def _known(job: ClaimedJob, spec: DatasetSpec, digest: str) -> SampleManifestView | None:
    """Return an earlier manifest of the same spec, if only the spec determines its content; else None.

    A dataset that is read from files, or whose code has no version, is always enumerated again.
    """
    if spec.path is not None or not isinstance(spec.package, PackageRef) or job.job.params.get("is_fresh"):
        return None
    async with job.runtime.database.transaction() as session:
        known = await manifests.of_dataset(session, digest)
    if known is None or not await job.runtime.storage.exists(known.storage_key):
        return None
    await job.runtime.storage.open(known.storage_key, known.id)  # a damaged manifest fails the run here, not later
    return known


async def _on_this_machine(job: ClaimedJob, spec: DatasetSpec) -> DatasetSpec:
    """Return the spec with the local path of its file, if that is in storage, where its name is its content hash."""
    if spec.path is None or not spec.path.startswith(STORAGE_SCHEME):
        return spec
    key = spec.path.removeprefix(STORAGE_SCHEME)
    path = await job.runtime.storage.open(key, PurePosixPath(key).stem)
    return spec.model_copy(update={"path": str(path)})


@asynccontextmanager
async def _fetched(job: ClaimedJob, spec: DatasetSpec) -> AsyncIterator[DatasetSpec]:
    """Yield the spec with the path of its files on this machine, which are fetched or unpacked first."""
    if not is_elsewhere(spec.path) and not is_archive(spec.path):
        yield spec
        return
    arrival, files = Arrival(), ExitStack()

    def fetch() -> DatasetSpec:
        return files.enter_context(on_this_machine(spec, job.settings, arrival))

    with files, job.preparing("dataset", MAX_FETCH_S):
        fetching = asyncio.ensure_future(asyncio.to_thread(fetch))
        while not fetching.done():
            await asyncio.wait({fetching}, timeout=PROGRESS_S)
            if arrival.done < arrival.total:
                await job.announce("dataset", done=arrival.done, total=arrival.total, unit="bytes")
        yield await fetching


async def _commit(job: ClaimedJob, result: IndexResult, digest: str) -> None:
    """Add the row of the manifest, which is already in storage, in one fenced transaction."""
    async with job.transaction() as session:
        await manifests.add(
            session,
            manifest_id=result.manifest_id,
            dataset_digest=digest,
            storage_key=manifest_key(result.manifest_id),
            size_bytes=result.size_bytes,
            samples=result.samples,
            unreadable=result.unreadable,
            group_columns=result.group_columns,
        )


async def _complete(
    job: ClaimedJob, spec: DatasetSpec, limits: Limits, manifest_id: str, samples: int, unreadable: int
) -> Complete:
    drawn = await _drawn(job, spec, limits, manifest_id)
    examples: JsonObject = {} if drawn is None else {"examples": drawn.as_json()}
    return Complete(data={"manifest_id": manifest_id, "samples": samples, "unreadable": unreadable, **examples})
