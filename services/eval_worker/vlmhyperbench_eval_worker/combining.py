"""COMBINE: make the answers of a pipeline's run of those of its models, and ask none."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from vlmhyperbench.db import claims, manifests, runs
from vlmhyperbench.db.views import NewChunk, NewFact
from vlmhyperbench.domain.asking import pipeline_of
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.outcomes import Complete, Outcome, Preempted
from vlmhyperbench.domain.pipelines import PipelineTarget, asked_models
from vlmhyperbench.errors import NotFound
from vlmhyperbench.facts.replies import read_replies
from vlmhyperbench.facts.sealing import blank_row, seal
from vlmhyperbench.scoring.combining import Asked, Combiner
from vlmhyperbench.scoring.traces import critical_path_ns, tokens_of, trace_of
from vlmhyperbench.worker.claims import ClaimedJob

CHUNK_ROWS = 1000


async def handle_combine(job: ClaimedJob) -> Outcome:
    """Do one COMBINE job; it fails where a model has no answers that the pipeline cannot do without."""
    async with job.runtime.database.transaction() as session:
        run = await runs.get(session, job.run_id)
        stored = await manifests.get(session, run.manifest_id or "") if run else None
        missing = await claims.missing_ordinals(session, job.job)
    if run is None or stored is None or job.job.phase is None:
        raise NotFound(f"The run {job.run_id} or its sample manifest does not exist.")
    pipeline = pipeline_of(run.pinned_spec())
    models = list(asked_models(pipeline))
    no, dropped, phase = 0, set[str](), job.job.phase
    with tempfile.TemporaryDirectory(prefix="vlmhb-combine-") as folder:
        for start in range(0, len(missing), CHUNK_ROWS):
            ordinals = sorted(missing)[start : start + CHUNK_ROWS]
            if job.draining.is_set() or job.cancelled.is_set():
                return Preempted()
            replies = await read_replies(
                job.runtime.database, job.runtime.storage, job.run_id, pipeline, models, ordinals=ordinals
            )
            dropped.update(replies.dropped)
            combine = partial(rows_of, pipeline, replies.samples, ordinals, phase=phase, count=stored.samples)
            rows = await job.run_cpu(combine)
            chunk, facts = await asyncio.to_thread(_seal, job, rows, no=no, folder=Path(folder))
            await job.append(chunk, facts)
            no += 1
            await job.progress(done=min(no * CHUNK_ROWS, len(missing)), total=len(missing))
    return Complete(data={"requests": 0, "phase": phase, "dropped": sorted(dropped)})


def rows_of(
    pipeline: PipelineTarget, samples: Mapping[int, Asked], ordinals: Sequence[int], *, phase: int, count: int
) -> list[dict[str, Any]]:
    """Return the chunk rows of the answers of a pipeline; runs in a child."""
    combiner = Combiner(pipeline)
    nothing = Asked(question="", replies={})
    asked = digest_of([stage.model_dump(mode="json") for stage in pipeline.stages])
    return [
        _row(pipeline, combiner, samples.get(ordinal, nothing), ordinal, asked=asked, phase=phase, count=count)
        for ordinal in ordinals
    ]


def _row(
    pipeline: PipelineTarget, combiner: Combiner, sample: Asked, ordinal: int, *, asked: str, phase: int, count: int
) -> dict[str, Any]:
    answers = combiner.answers(sample)
    last = answers[pipeline.stages[-1].id]
    replies = [(key, reply) for key, reply in sample.replies.items() if reply.text is not None]
    request_sha256 = digest_of(
        {
            "stages": asked,
            "question": sample.question,
            "answers": {" ".join(key): reply.text for key, reply in replies},
        }
    )
    blank = blank_row(
        phase=phase,
        ordinal=ordinal,
        sample=ordinal % count,
        repeat=ordinal // count,
        status="ok" if last.value is not None else "error",
        error=None if last.value is not None else f"The pipeline has no answer: {last.reason}.",
        request_sha256=request_sha256,
    )
    failed = {} if last.value is not None else {"failure": last.failure, "error_code": f"pipeline_{last.status}"}
    return {
        **blank,
        **failed,
        "text": last.value,
        "finish_reason": last.finish_reason,
        "user_prompt": combiner.question(pipeline.stages[-1], sample, answers),
        "prompt_tokens": tokens_of(reply.prompt_tokens for _, reply in replies),
        "completion_tokens": tokens_of(reply.completion_tokens for _, reply in replies),
        "token_source": "usage" if any(reply.completion_tokens is not None for _, reply in replies) else None,
        "trace": json.dumps(trace_of(pipeline, sample, answers), ensure_ascii=False),
        "latency_ns": critical_path_ns(pipeline, sample),
    }


def _seal(job: ClaimedJob, rows: Sequence[dict[str, Any]], *, no: int, folder: Path) -> tuple[NewChunk, list[NewFact]]:
    """Store rows, and give the narrow rows the time of the critical path: there are no events to derive it from."""
    chunk, facts = seal(
        job.runtime.storage,
        [{name: value for name, value in row.items() if name != "latency_ns"} for row in rows],
        run_id=job.run_id,
        claim_id=job.claim_id,
        phase=int(rows[0]["phase"]),
        no=no,
        folder=folder,
        origin="combined",
    )
    return chunk, [replace(fact, latency_ns=row["latency_ns"]) for fact, row in zip(facts, rows, strict=True)]
