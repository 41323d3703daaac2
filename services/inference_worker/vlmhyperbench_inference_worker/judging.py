"""The samples of a judge: each answer of the run, in each of the orders in which the judge sees it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import polars

from vlmhyperbench.data.images import ImageInfo
from vlmhyperbench.data.manifest import ManifestSample
from vlmhyperbench.db import claims, runs
from vlmhyperbench.domain.judging import METRIC, Judging, Order, judge_of, judging_of, judging_spec
from vlmhyperbench.errors import NotFound
from vlmhyperbench.facts.read import read_facts
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.reading import with_requests
from vlmhyperbench_inference_worker.work import Work

NO_ANSWER = "There is no answer to judge."
MAX_CHARS = 200_000
"""Maximum length of answer and reference together: no judge reads more, and one answer must not block the others."""
TOO_LONG = f"The answer and its reference are longer than {MAX_CHARS} characters together."


async def read_judging(job: ClaimedJob) -> Work:
    """Read the answers of the run and make them the samples of a judge.

    Raises:
        NotFound: the run does not exist any more.
        Conflict: a file in storage is not the one that was committed.
        InvalidInput, PluginFailure, Unavailable: as `with_requests`.
    """
    async with job.runtime.database.transaction() as session:
        run = await runs.get(session, job.run_id)
        missing = await claims.missing_ordinals(session, job.job)
    if run is None or run.total is None:
        raise NotFound(f"The run {job.run_id} does not exist, or was never indexed.")
    spec = run.pinned_spec()
    judging = judging_of(judge_of(spec, str(job.job.params[METRIC])))
    answers = await read_facts(job.runtime.database, job.runtime.storage, job.run_id, payload=("text",))
    samples = await asyncio.to_thread(lambda: list(judged_samples(answers, judging, run.total or 0)))
    work = Work(
        spec=judging_spec(spec, judging),
        samples=samples,
        missing=missing,
        step=job.job.kind,
        unasked=frozenset(sample.index for sample in samples if sample.error == NO_ANSWER),
    )
    return await with_requests(job, work)


def judged_samples(answers: polars.DataFrame, judging: Judging, total: int) -> Iterator[ManifestSample]:
    """Yield one sample per order and answer; a missing answer becomes a sample with an error.

    Args:
        answers: the facts of the counting phases, from `read_facts`.
        judging: the judge.
        total: number of requests of the run.
    """
    wanted = answers.select("ordinal", "key", "question", "references", "images", "metadata", "status", "text")
    by_ordinal = {row["ordinal"]: row for row in wanted.iter_rows(named=True)}
    for position, order in enumerate(judging.orders):
        for ordinal in range(total):
            yield _sample(position * total + ordinal, by_ordinal.get(ordinal), order, images=judging.images)


def _sample(index: int, row: Mapping[str, Any] | None, order: Order, *, images: bool) -> ManifestSample:
    if row is None or row["status"] != "ok":
        return ManifestSample(index=index, key=f"{index}", question="", error=NO_ANSWER)
    reference, answer = " or ".join(row["references"] or ()), row["text"] or ""
    if len(reference) + len(answer) > MAX_CHARS:
        return ManifestSample(index=index, key=f"{index}", question="", error=TOO_LONG)
    first, second = (reference, answer) if order == "reference_first" else (answer, reference)
    shown = {"reference": reference, "answer": answer, "first": first, "second": second, "order": order}
    return ManifestSample(
        index=index,
        key=f"{row['key']}, {order.replace('_', ' ')}",
        question=row["question"] or "",
        references=tuple(row["references"] or ()),
        images=tuple(ImageInfo(**image) for image in row["images"] or ()) if images else (),
        metadata={**(json.loads(row["metadata"]) if row["metadata"] else {}), **shown},
    )
