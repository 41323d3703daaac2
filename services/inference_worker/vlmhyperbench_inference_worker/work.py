"""What a job has to ask: the run's spec, its samples, and the requests that have no row yet."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from vlmhyperbench.analysis.sequential import request_order
from vlmhyperbench.data import manifest
from vlmhyperbench.db import claims, manifests, runs
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench.errors import NotFound
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.rendering import render_prompts
from vlmhyperbench_inference_worker.requests import ImageRef, PlannedRequest, chat_request, options_of, request_digest
from vlmhyperbench_sdk.load import PhaseKind
from vlmhyperbench_sdk.types import Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The job at hand, read once at its start."""

    spec: RunSpec
    samples: list[manifest.ManifestSample]
    missing: list[int]
    """Ordinals of the job's range that have neither an own nor a kept row, in the order in which they are asked."""
    parent_run_id: UUID | None = None
    """The run that this one is a rerun of."""
    step: StepKind = StepKind.GENERATE

    @property
    def served_name(self) -> str:
        """The model's name in requests."""
        return self.spec.target.served_name

    @property
    def has_parent(self) -> bool:
        """Whether it is a rerun that may keep rows of its parent."""
        return self.parent_run_id is not None and self.spec.reuse != "nothing"

    @property
    def takes_cached(self) -> bool:
        """Whether answers of any run may be kept: only where asking again must give the same one, or for a judge."""
        return self.spec.reuse == "cache" and (self.spec.decoding.temperature == 0 or self.asks_for_metric)

    @property
    def asks_for_metric(self) -> bool:
        """Whether the target is one that a metric asks, not the run's."""
        return STEPS[self.step].asks == "metric"

    @property
    def phase_kind(self) -> PhaseKind:
        """Kind of the phase that all shards share."""
        kind = STEPS[self.step].phase
        assert kind is not None, "what is asked becomes facts"  # noqa: S101
        return kind

    @property
    def is_timed(self) -> bool:
        """The scenario restarts whole: its phase belongs to the claim that measures it."""
        return self.spec.scenario.is_timed

    def sample_of(self, ordinal: int) -> manifest.ManifestSample:
        """The sample of an ordinal: ordinal = repeat · samples + sample."""
        return self.samples[ordinal % len(self.samples)]

    @property
    def readable(self) -> list[int]:
        """Those of the missing whose samples can be asked."""
        return [ordinal for ordinal in self.missing if self.sample_of(ordinal).error is None]

    def draw_uncounted(self, count: int, measured: Sequence[int]) -> list[int]:
        """Draw ordinals of so many samples that can be asked, for what counts nowhere.

        They are drawn, so that they are like the others whatever the order of the data set; those that are not
        measured come first, since an engine may keep what it has read of the rest.
        """
        asked = {ordinal % len(self.samples) for ordinal in measured}
        readable = [sample.index for sample in self.samples if sample.error is None]
        random.Random(f"aside/{self.spec.scenario.seed}").shuffle(readable)  # noqa: S311 - drawn, not secret
        return sorted(readable, key=asked.__contains__)[:count]


async def read_work(job: ClaimedJob) -> Work:
    """Read the run's spec, its sample manifest and what is missing of the job's range.

    Raises:
        NotFound: the run or its manifest does not exist any more.
    """
    async with job.runtime.database.transaction() as session:
        run = await runs.get(session, job.run_id)
        found = await manifests.get(session, run.manifest_id or "") if run else None
        missing = await claims.missing_ordinals(session, job.job)
    if run is None or found is None:
        raise NotFound(f"The run {job.run_id} or its sample manifest does not exist.")
    spec = RunSpec.model_validate(run.spec)
    path = await job.runtime.storage.open(found.storage_key, found.id)
    samples = await asyncio.to_thread(_read_manifest, path)
    if spec.stop is not None:
        keys = [sample.key for sample in samples]
        wanted = set(missing)
        order = request_order(keys, repeats=spec.decoding.n, seed=spec.stop.seed)
        missing = [ordinal for ordinal in order if ordinal in wanted]
    return Work(spec=spec, samples=samples, missing=missing, parent_run_id=run.parent_run_id, step=job.job.kind)


async def plan_requests(work: Work, ordinals: Sequence[int], *, phase: int) -> list[PlannedRequest]:
    """Render the requests of ordinals, in their order.

    Raises:
        InvalidInput: a template is wrong, asks for what a sample lacks, or takes too much time or memory.
        Unavailable: the child died.
    """
    samples = [work.sample_of(ordinal) for ordinal in ordinals]
    # What cannot be asked has no prompt either: a template may need what the sample lacks.
    askable = [sample for sample in samples if sample.error is None]
    rendered = iter(await render_prompts(work.spec.prompt, askable))
    prompts = [next(rendered) if sample.error is None else Prompt(user="") for sample in samples]
    return await asyncio.to_thread(_plan_all, work, phase, ordinals, prompts)


def _plan_all(work: Work, phase: int, ordinals: Sequence[int], prompts: Sequence[Prompt]) -> list[PlannedRequest]:
    return [_plan(work, phase, ordinal, prompt) for ordinal, prompt in zip(ordinals, prompts, strict=True)]


def _plan(work: Work, phase: int, ordinal: int, prompt: Prompt) -> PlannedRequest:
    sample, spec, repeat = work.sample_of(ordinal), work.spec, ordinal // len(work.samples)
    images = tuple(ImageRef(sha256=image.sha256, media_type=image.media_type) for image in sample.images)
    request = chat_request(
        model=work.served_name,
        prompt=prompt,
        images=images,
        decoding=spec.decoding,
        repeat=repeat,
        response_format=spec.response_format,
        options=options_of(spec.target),
    )
    return PlannedRequest(
        phase=phase,
        ordinal=ordinal,
        sample=sample.index,
        repeat=repeat,
        prompt=prompt,
        images=images,
        request=request,
        request_sha256=request_digest(request),
    )


def _read_manifest(path: Path) -> list[manifest.ManifestSample]:
    return list(manifest.samples_of(manifest.read(path)))
