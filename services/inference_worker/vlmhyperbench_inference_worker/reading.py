"""Read the work of a job that asks the run's own target, and make the requests of a job."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from vlmhyperbench.analysis.sequential import request_order
from vlmhyperbench.data import manifest
from vlmhyperbench.data.examples import check_leaks
from vlmhyperbench.data.manifest import ManifestSample
from vlmhyperbench.data.rendering import render_prompts
from vlmhyperbench.db import claims, manifests, runs
from vlmhyperbench.domain.response_formats import format_of_sample
from vlmhyperbench.domain.specs import AnyPrompt, PromptSpec, RunSpec
from vlmhyperbench.errors import NotFound
from vlmhyperbench.scoring.metrics import host_of
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench.worker.metric_hosts import hosts_of
from vlmhyperbench_inference_worker.few_shot import examples_of
from vlmhyperbench_inference_worker.requests import (
    Example,
    PlannedRequest,
    chat_request,
    images_of,
    options_of,
    request_digest,
    style_of,
)
from vlmhyperbench_inference_worker.work import Work
from vlmhyperbench_sdk.types import Prompt


async def read_work(job: ClaimedJob, *, with_all: bool = True) -> Work:
    """Read the run's spec and its sample manifest, and make the requests that are missing of the job's range.

    Without `with_all` no request is made.

    Raises:
        NotFound: the run or its manifest does not exist any more.
        InvalidInput, PluginFailure, Unavailable: as `with_requests`.
    """
    async with job.runtime.database.transaction() as session:
        run = await runs.get(session, job.run_id)
        stored = await manifests.get(session, run.manifest_id or "") if run else None
        shown = await manifests.get(session, run.examples_id) if run and run.examples_id else None
        missing = await claims.missing_ordinals(session, job.job)
    if run is None or stored is None:
        raise NotFound(f"The run {job.run_id} or its sample manifest does not exist.")
    spec = RunSpec.model_validate(run.spec)
    path = await job.runtime.storage.open(stored.storage_key, stored.id)
    samples = await asyncio.to_thread(_read_manifest, path)
    examples = list[ManifestSample]()
    if shown is not None:
        examples = await asyncio.to_thread(_read_manifest, await job.runtime.storage.open(shown.storage_key, shown.id))
    if spec.stop is not None:
        keys = [sample.key for sample in samples]
        wanted = set(missing)
        order = request_order(keys, repeats=spec.decoding.n, seed=spec.stop.seed)
        missing = [ordinal for ordinal in order if ordinal in wanted]
    work = Work(
        spec=spec,
        samples=samples,
        examples=examples,
        missing=missing,
        parent_run_id=run.parent_run_id,
        step=job.job.kind,
        in_flight=run.in_flight,
    )
    job.in_flight = run.in_flight  # a later change is told to the load generator
    return await with_requests(job, work) if with_all else work


async def with_requests(job: ClaimedJob, work: Work) -> Work:
    """Make every request that the job may send: those that are missing, and those that are sent before them.

    Prompts are rendered once per sample. Rows that are reused later make `missing` shorter. Then a sample that was
    missing may be drawn for the warm-up, so each of those has its request; no other sample moves forward in the order.

    Raises:
        NotFound, Conflict: the prompt's plugin is not installed in the version that the run pins.
        InvalidInput: a template is wrong, asks for what a sample lacks, or takes too much time or memory; or the
            response format is the schema of each sample, and a sample has none.
        PluginFailure: a plugin fails.
        Unavailable: the child that renders prompts died.
    """
    if not work.missing:
        return work
    scenario, size = work.spec.scenario, len(work.samples)
    drawn = [*work.uncounted[: scenario.warmup_requests + scenario.baseline_requests], *work.probes]
    ordinals = dict.fromkeys([*work.missing, *(ordinal % size for ordinal in work.missing), *drawn])
    samples = {ordinal % size: work.sample_of(ordinal) for ordinal in ordinals}
    # A sample that cannot be read gets no prompt: a template may need what it lacks.
    readable = [sample for sample in samples.values() if sample.error is None]
    if work.prompts is not None:
        return replace(work, requests=await asyncio.to_thread(_plan, work, list(ordinals), work.prompts))
    examples = list(work.examples) if work.spec.prompt.few_shot is not None else []
    rendered = await _render(job, work.spec.prompt, [*examples, *readable])
    if work.shape is not None:
        rendered = list(map(work.shape, rendered))
    before, rendered = rendered[: len(examples)], rendered[len(examples) :]
    shown = examples_of(work.spec.prompt, examples, before)
    check_leaks(examples, before, readable, rendered)
    prompts = {sample.index: prompt for sample, prompt in zip(readable, rendered, strict=True)}
    return replace(work, requests=await asyncio.to_thread(_plan, work, list(ordinals), prompts, shown))


async def _render(job: ClaimedJob, prompt: AnyPrompt, samples: Sequence[ManifestSample]) -> list[Prompt]:
    """Render prompts, a strategy of a package in its own environment, which is built if it is missing."""
    if isinstance(prompt, PromptSpec) or prompt.environment is None:
        return await render_prompts(prompt, samples)
    async with hosts_of(job, [prompt]) as hosts:
        return await render_prompts(prompt, samples, host=host_of(prompt, hosts))


def _plan(
    work: Work, ordinals: Sequence[int], prompts: Mapping[int, Prompt], examples: Sequence[Example] = ()
) -> dict[int, PlannedRequest]:
    return {
        ordinal: _plan_request(work, ordinal, prompts.get(ordinal % len(work.samples), Prompt(user="")), examples)
        for ordinal in ordinals
    }


def _plan_request(work: Work, ordinal: int, prompt: Prompt, examples: Sequence[Example]) -> PlannedRequest:
    (index, repeat), sample, spec = work.place_of(ordinal), work.sample_of(ordinal), work.spec
    images = images_of(sample)
    request = chat_request(
        model=work.served_name,
        prompt=prompt,
        images=images,
        decoding=work.decoding_of(ordinal),
        repeat=repeat,
        response_format=format_of_sample(spec.response_format, sample.metadata, key=sample.key),
        options=options_of(spec.target),
        style=style_of(spec.target),
        languages=work.languages,
        examples=examples,
    )
    return PlannedRequest(
        ordinal=ordinal,
        sample=index,
        repeat=repeat,
        prompt=prompt,
        images=images,
        examples=tuple(examples),
        request=request,
        request_sha256=request_digest(request),
    )


def _read_manifest(path: Path) -> list[manifest.ManifestSample]:
    return list(manifest.samples_of(manifest.read(path)))
