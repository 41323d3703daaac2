"""What a GENERATE job has to do: the run's spec, its samples, and the requests that have no row yet."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from vlmhyperbench.data import manifest
from vlmhyperbench.db import claims, manifests, runs
from vlmhyperbench.domain.prompts import render
from vlmhyperbench.domain.specs import ModelTarget, RunSpec
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.requests import ImageRef, PlannedRequest, chat_request, request_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The job at hand, read once at its start."""

    spec: RunSpec
    samples: list[manifest.ManifestSample]
    missing: list[int]
    """Ordinals of the job's range that have neither an own nor a kept row."""

    @property
    def served_name(self) -> str:
        """The model's name in requests."""
        target = self.spec.target
        return target.model if isinstance(target, ModelTarget) else target.model_name


async def read_work(job: ClaimedJob) -> Work:
    """Read the run's spec, its sample manifest and what is missing of the job's range."""
    async with job.runtime.database.transaction() as session:
        run = await runs.get(session, job.run_id)
        found = await manifests.get(session, run.manifest_id or "")
        missing = await claims.missing_ordinals(session, job.job)
    samples = await asyncio.to_thread(manifest.read, job.runtime.storage, found.storage_key)
    return Work(spec=RunSpec.model_validate(run.spec), samples=samples, missing=missing)


def plan_request(work: Work, *, phase: int, ordinal: int) -> PlannedRequest:
    """Render the request of an ordinal: ordinal = repeat · samples + sample."""
    repeat, index = divmod(ordinal, len(work.samples))
    sample, spec = work.samples[index], work.spec
    prompt = render(spec.prompt, question=sample.question, metadata=sample.metadata)
    images = tuple(ImageRef(sha256=image.sha256, media_type=image.media_type) for image in sample.images)
    request = chat_request(
        model=work.served_name,
        prompt=prompt,
        images=images,
        decoding=spec.decoding,
        repeat=repeat,
        response_format=spec.response_format,
    )
    return PlannedRequest(
        phase=phase,
        ordinal=ordinal,
        sample=index,
        repeat=repeat,
        prompt=prompt,
        images=images,
        request=request,
        request_sha256=request_digest(request),
    )
