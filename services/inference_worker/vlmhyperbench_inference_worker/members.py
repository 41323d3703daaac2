"""The work of a job that asks one model of a pipeline: the run's samples, or what earlier stages have answered."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from vlmhyperbench.data.manifest import ManifestSample
from vlmhyperbench.domain.asking import member_spec, pipeline_of
from vlmhyperbench.domain.outcomes import Complete, Outcome
from vlmhyperbench.domain.pipelines import AskedModel, PipelineTarget, asked_model, needed_by, refusal_of_images
from vlmhyperbench.facts.replies import read_replies
from vlmhyperbench.scoring.combining import Asked, Combiner, shaped
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.reading import read_work, with_requests
from vlmhyperbench_inference_worker.sink import Sink, write_unsent
from vlmhyperbench_inference_worker.work import Work
from vlmhyperbench_sdk.types import Prompt

NOT_HERE = "Another job asks about it."
NOT_ANSWERED = "Its earlier stages have no rows."


async def read_member(job: ClaimedJob) -> Work:
    """Read what a model of a pipeline is asked, and make the requests that are missing of the job's range.

    Raises:
        Conflict: an earlier stage needs a model whose step failed.
        NotFound, InvalidInput, PluginFailure, Unavailable: as `read_work`.
    """
    work = await read_work(job, with_all=False)
    pipeline = pipeline_of(work.spec)
    asked = asked_model(pipeline, job.job.params)
    work = replace(work, spec=member_spec(work.spec, asked), pipeline=pipeline, languages=asked.stage.languages)
    if not asked.model.sees_images:
        samples, examples = ([replace(sample, images=()) for sample in own] for own in (work.samples, work.examples))
        work = replace(work, samples=samples, examples=examples)
    elif (refusal := refusal_of_images(asked)) is not None:
        work = replace(work, samples=[_refused(work, sample, " ".join(refusal)) for sample in work.samples])
    needed = needed_by(pipeline, asked)
    if not needed:
        return await with_requests(job, replace(work, shape=lambda prompt: shaped(asked.stage, prompt)))
    replies = await read_replies(
        job.runtime.database, job.runtime.storage, job.run_id, pipeline, needed, ordinals=work.missing
    )
    prompts = await job.run_cpu(prompts_of, pipeline, asked, replies.samples)
    return await with_requests(job, _of_answers(work, prompts))


def _refused(work: Work, sample: ManifestSample, why: str) -> ManifestSample:
    """Return a sample about which a model that reads no images is not asked, if it or an example has some."""
    has_images = bool(sample.images) or any(example.images for example in work.examples)
    return replace(sample, error=sample.error or why) if has_images else sample


def prompts_of(pipeline: PipelineTarget, asked: AskedModel, samples: Mapping[int, Asked]) -> dict[int, Prompt | str]:
    """Return what a model is asked about each answer, or why it is not asked; runs in a child."""
    combiner = Combiner(pipeline)
    return {ordinal: combiner.prompt_of(asked, sample) for ordinal, sample in samples.items()}


def _of_answers(work: Work, prompts: Mapping[int, Prompt | str]) -> Work:
    """Return work with one sample per answer of the run, since repeats of a sample have different answers before.

    It has no examples: these show how the question of a sample is answered, not what is made of other answers.
    """
    wanted, count = set(work.missing), len(work.samples)
    total = max(max(work.missing, default=0) + 1, count)
    samples: list[ManifestSample] = []
    given: dict[int, Prompt] = {}
    unasked = set[int]()
    for ordinal in range(total):
        sample = replace(work.samples[ordinal % count], index=ordinal)
        prompt = prompts.get(ordinal, NOT_ANSWERED) if ordinal in wanted else NOT_HERE
        if isinstance(prompt, Prompt):
            given[ordinal] = prompt
        elif sample.error is None:
            sample = replace(sample, error=prompt)
            unasked.add(ordinal)
        samples.append(sample)
    work = replace(work, samples=samples, examples=(), prompts=given)
    return replace(work, manifest_size=count, unasked=frozenset(unasked))


async def write_without_asking(job: ClaimedJob, work: Work) -> Outcome:
    """Write the rows of a job in which nothing can be asked, so that its model need not be loaded."""
    phase = job.job.phase or 0
    with tempfile.TemporaryDirectory(prefix="vlmhb-member-") as folder:
        sink = Sink(job.runtime.storage, run_id=job.run_id, claim_id=job.claim_id, folder=Path(folder))
        await write_unsent(job, work, sink, phase=phase)
    return Complete(data={"requests": 0, "phase": phase})


def is_idle(work: Work, *, phase: int | None) -> bool:
    """Return whether no request of a member's job can be sent, such as repairs where every answer was valid."""
    return work.asks == "member" and phase is not None and not work.readable
