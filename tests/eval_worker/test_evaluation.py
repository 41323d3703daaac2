"""SCORE against a real database, bus and storage: facts in, fenced measures out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import UUID, uuid4

import polars
import pytest
from pydantic import SecretStr
from sqlalchemy import insert, update

from tests.support.builders import add_run, add_shard, add_worker, chunk_frame, new_fact, run_spec, store_chunk
from tests.support.handling import ended
from vlmhyperbench.analysis.quality import aggregates_of
from vlmhyperbench.data.manifest import ManifestSample, manifest_key, write
from vlmhyperbench.db import jobs, manifests, measures
from vlmhyperbench.db.appending import append
from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import JobRow, RunRow
from vlmhyperbench.db.views import MeasureManifestView
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.identity import differences, id_of
from vlmhyperbench.domain.outcomes import Complete, Failed, Preempted
from vlmhyperbench.domain.specs import ExtractorSpec, MetricSpec
from vlmhyperbench.domain.states import FactStatus, JobState
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.errors import Fenced
from vlmhyperbench.runtime import Runtime, open_runtime
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.children import CpuChildren
from vlmhyperbench.worker.claims import ClaimedJob, WorkerContext
from vlmhyperbench_eval_worker.evaluation import handle_score
from vlmhyperbench_text_metrics.cer import Cer
from vlmhyperbench_text_metrics.exact_match import ExactMatch

pytestmark = pytest.mark.anyio

EXACT = MetricSpec(name="exact_match", profile="v1", version="1.0.0", class_path="exact_match")
CER = MetricSpec(name="cer", profile="jiwer", version="1.0.0", class_path="cer")
ANSWERS = ["one", "wrong", ""]
REFERENCES = [("one",), ("two",), ("three",), ("four",)]


@pytest.fixture
async def runtime(database_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[Runtime]:
    settings = Settings(
        home=tmp_path,
        database_url=SecretStr(database_url),
        redis_url=SecretStr(redis_url),
        storage_url=str(tmp_path / "storage"),
    )
    async with open_runtime(settings, name="test") as opened:
        yield opened


@pytest.fixture
def cpu() -> Iterator[CpuChildren]:
    children = CpuChildren()
    yield children
    children.close()


async def _answered_run(
    runtime: Runtime, folder: Path, *metrics: MetricSpec, extractors: tuple[ExtractorSpec, ...] = (ExtractorSpec(),)
) -> UUID:
    """Make a run of four samples: a right and a wrong answer, an empty one, and a failed request."""
    spec = run_spec().model_copy(update={"metrics": metrics, "extractors": extractors})
    samples = [
        ManifestSample(index=i, key=f"s{i}", question="?", references=own, metadata={"doc_class": "ab"[i % 2]})
        for i, own in enumerate(REFERENCES)
    ]
    manifest_id, content = write(samples)
    runtime.storage.put(manifest_key(manifest_id), content)
    async with runtime.database.transaction() as session:
        run = await add_run(session, spec=spec)
        await manifests.add(
            session,
            manifest_id=manifest_id,
            dataset_digest=digest_of(spec.dataset),
            storage_key=manifest_key(manifest_id),
            size_bytes=len(content),
            samples=4,
            unreadable=0,
            group_columns=["doc_class"],
        )
        runs = table_of(RunRow)
        await session.execute(update(runs).where(runs.c.id == run.id).values(manifest_id=manifest_id))
        shard = await add_shard(session, run=run, end=4)
        frame = chunk_frame([*ANSWERS, ""])
        chunk = store_chunk(runtime.storage, folder, frame, run_id=run.id, claim_id=shard.claim_id)
        facts = [new_fact(i, row=i) for i in range(3)] + [new_fact(3, row=3, status=FactStatus.ERROR)]
        assert await append(session, job_id=shard.job_id, claim_id=shard.claim_id, chunk=chunk, rows=facts)
    return run.id


async def _claimed(runtime: Runtime, cpu: CpuChildren, run_id: UUID) -> ClaimedJob:
    """Make a SCORE job of the run that this process has claimed."""
    job_id, claim_id = uuid4(), uuid4()
    async with runtime.database.transaction() as session:
        worker_id = await add_worker(session)
        await session.execute(
            insert(table_of(JobRow)).values(
                step=0,
                counts=False,
                id=job_id,
                kind=StepKind.SCORE.value,
                scope="run",
                run_id=run_id,
                project_id="default",
                state=JobState.RUNNING.value,
                needs=[],
                params={},
                attempt_id=uuid4(),
                claim_id=claim_id,
                worker_id=worker_id,
                attempts=1,
            )
        )
        job = await jobs.get(session, job_id)
    assert job is not None
    context = WorkerContext(
        worker_id=worker_id, boot_id=uuid4(), name="eval", runtime=runtime, settings=runtime.settings, label={}
    )
    return ClaimedJob(job, claim_id=claim_id, context=context, cpu=cpu)


async def _measures(runtime: Runtime, run_id: UUID) -> list[tuple[MeasureManifestView, polars.DataFrame]]:
    async with runtime.database.transaction() as session:
        manifests = await measures.of_run(session, run_id)
    return [
        (manifest, polars.read_parquet(await runtime.storage.open(manifest.storage_key, manifest.sha256)))
        for manifest in manifests
    ]


async def test_every_metric_of_the_run_is_measured_and_stored(
    runtime: Runtime, cpu: CpuChildren, tmp_path: Path
) -> None:
    run_id = await _answered_run(runtime, tmp_path, EXACT, CER)
    job = await _claimed(runtime, cpu, run_id)
    assert await handle_score(job) == Complete(data={"metrics": 2, "reused": [], "rows": 4, "unscored": 0})
    (exact, exact_rows), (cer, cer_rows) = await _measures(runtime, run_id)
    assert exact_rows["outcome"].to_list() == ["scored", "scored", "scored", "model_failure"]
    assert exact_rows["value"].to_list() == [1.0, 0.0, 0.0, 0.0]
    assert cer_rows["value"].to_list() == [0.0, pytest.approx(4 / 3), 1.0, 1.0]
    assert (exact.job_id, exact.claim_id, exact.no, exact.rows) == (job.job.id, job.claim_id, 0, 4)
    assert exact.metrics[0]["name"] == "exact_match"
    assert cer.metrics[0]["extractor"] == "text@1"
    assert exact.environment == cer.environment
    assert aggregates_of(exact_rows, ExactMatch())[()].value == 0.25
    assert aggregates_of(cer_rows, Cer())[()].value == pytest.approx((0 + 4 + 5 + 4) / (3 + 3 + 5 + 4))


async def test_every_extractor_is_measured_and_every_number_has_its_own_identity(
    runtime: Runtime, cpu: CpuChildren, tmp_path: Path
) -> None:
    extractors = (ExtractorSpec(), ExtractorSpec(name="regex", params={"pattern": "one"}))
    run_id = await _answered_run(runtime, tmp_path, EXACT, extractors=extractors)
    assert await handle_score(await _claimed(runtime, cpu, run_id)) == Complete(
        data={"metrics": 2, "reused": [], "rows": 4, "unscored": 2}
    )
    (text, _), (pattern, rows) = await _measures(runtime, run_id)
    assert rows["reason"].to_list() == [None, "invalid_output: no_match", "invalid_output: no_match", None]
    result = [item.metrics[0]["evaluation"] for item in (text, pattern)]
    assert [item.path for item in differences(*result)] == ["extractor.name", "extractor.params.pattern"]
    assert [item.evaluation_id for item in (text, pattern)] == [id_of(item) for item in result]


async def test_a_metric_that_is_not_installed_fails_the_job_permanently(
    runtime: Runtime, cpu: CpuChildren, tmp_path: Path
) -> None:
    wrong = EXACT.model_copy(update={"class_path": "exact_mach"})
    run_id = await _answered_run(runtime, tmp_path, EXACT, wrong)
    outcome = await ended(handle_score(await _claimed(runtime, cpu, run_id)))
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.permanent) == ("not_found", True)
    assert "exact_match" in outcome.message
    assert await _measures(runtime, run_id) == []


async def test_a_lost_claim_writes_no_measures(runtime: Runtime, cpu: CpuChildren, tmp_path: Path) -> None:
    run_id = await _answered_run(runtime, tmp_path, EXACT)
    job = await _claimed(runtime, cpu, run_id)
    job.claim_id = uuid4()
    with pytest.raises(Fenced):
        await handle_score(job)
    assert await _measures(runtime, run_id) == []


async def test_scoring_again_replaces_what_an_earlier_claim_of_the_job_wrote(
    runtime: Runtime, cpu: CpuChildren, tmp_path: Path
) -> None:
    run_id = await _answered_run(runtime, tmp_path, EXACT)
    first, second = await _claimed(runtime, cpu, run_id), await _claimed(runtime, cpu, run_id)
    await handle_score(first)
    await handle_score(second)
    contents = {item.sha256 for item, _ in await _measures(runtime, run_id)}
    assert len(contents) == 1


async def test_a_draining_worker_releases_the_job(runtime: Runtime, cpu: CpuChildren, tmp_path: Path) -> None:
    run_id = await _answered_run(runtime, tmp_path, EXACT)
    job = await _claimed(runtime, cpu, run_id)
    job.draining.set()
    assert await handle_score(job) == Preempted()


async def test_a_run_without_metrics_is_complete_at_once(runtime: Runtime, cpu: CpuChildren, tmp_path: Path) -> None:
    run_id = await _answered_run(runtime, tmp_path)
    job = await _claimed(runtime, cpu, run_id)
    assert await handle_score(job) == Complete(data={"metrics": 0, "reused": [], "rows": 4, "unscored": 0})


async def test_a_chunk_that_was_changed_in_storage_fails_the_job(
    runtime: Runtime, cpu: CpuChildren, tmp_path: Path
) -> None:
    run_id = await _answered_run(runtime, tmp_path, EXACT)
    (chunk,) = (tmp_path / "storage" / "runs" / str(run_id) / "chunks").rglob("*.parquet")
    chunk.chmod(0o600)
    await asyncio.to_thread(chunk.write_bytes, b"something else")
    outcome = await ended(handle_score(await _claimed(runtime, cpu, run_id)))
    assert isinstance(outcome, Failed)
    assert outcome.code == "storage_corrupt"


async def test_a_metric_name_with_any_characters_gets_a_storage_key(
    runtime: Runtime, cpu: CpuChildren, tmp_path: Path
) -> None:
    run_id = await _answered_run(runtime, tmp_path, EXACT.model_copy(update={"name": "exact/../match @ё"}))
    assert isinstance(await handle_score(await _claimed(runtime, cpu, run_id)), Complete)
    ((manifest, _),) = await _measures(runtime, run_id)
    assert manifest.storage_key.endswith("/0-exact-match-.parquet")
