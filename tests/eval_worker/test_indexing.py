"""INDEX against a real database, bus and storage: one fenced manifest, shared by equal datasets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import SecretStr
from sqlalchemy import insert, update

from tests.support.builders import add_run, add_worker
from tests.support.handling import ended
from vlmhyperbench.data.manifest import manifest_key, read
from vlmhyperbench.db import jobs, manifests
from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import JobRow
from vlmhyperbench.domain.outcomes import Complete, Failed, Outcome
from vlmhyperbench.domain.specs import DatasetSpec, PackageRef
from vlmhyperbench.domain.states import JobState
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.errors import Fenced
from vlmhyperbench.runtime import Runtime, open_runtime
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.children import CpuChildren
from vlmhyperbench.worker.claims import ClaimedJob, WorkerContext
from vlmhyperbench_eval_worker.indexing import handle_index

pytestmark = pytest.mark.anyio

DRAWN = DatasetSpec(
    name="drawn",
    version="1.0.0",
    type="synthetic_documents",
    package=PackageRef(distribution="vlmhyperbench-document-datasets", version="0.1.0"),
    params={"documents": 2},
)


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


async def _claimed(
    runtime: Runtime, cpu: CpuChildren, spec: DatasetSpec, *, digest: str, limits: dict[str, int] | None = None
) -> ClaimedJob:
    """Make an INDEX job that this process has claimed."""
    job_id, claim_id = uuid4(), uuid4()
    async with runtime.database.transaction() as session:
        run = await add_run(session)
        worker_id = await add_worker(session)
        await session.execute(
            insert(table_of(JobRow)).values(
                step=0,
                counts=False,
                id=job_id,
                kind=StepKind.INDEX.value,
                scope="run",
                run_id=run.id,
                project_id="default",
                state=JobState.RUNNING.value,
                needs=[],
                params={
                    "dataset": spec.model_dump(mode="json"),
                    "limits": limits or {},
                    "dataset_digest": digest,
                },
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


def _data(outcome: Outcome) -> dict[str, object]:
    assert isinstance(outcome, Complete)
    return dict(outcome.data)


async def test_a_dataset_becomes_a_manifest_in_storage_and_a_row(runtime: Runtime, cpu: CpuChildren) -> None:
    digest = uuid4().hex
    data = _data(await handle_index(await _claimed(runtime, cpu, DRAWN, digest=digest)))
    manifest_id = str(data["manifest_id"])
    frame = read(await runtime.storage.open(manifest_key(manifest_id), manifest_id))
    async with runtime.database.transaction() as session:
        row = await manifests.of_dataset(session, digest)
    assert row is not None
    assert (row.id, row.samples, row.unreadable) == (data["manifest_id"], frame.height, 0)
    assert data["samples"] == frame.height
    assert row.group_columns == ("doc_class", "field", "question_type", "tier")


async def test_the_same_generated_dataset_is_not_enumerated_again(runtime: Runtime, cpu: CpuChildren) -> None:
    digest = uuid4().hex
    spec = DRAWN.model_copy(update={"seed": 1})
    first = await handle_index(await _claimed(runtime, cpu, spec, digest=digest))
    broken = spec.model_copy(update={"params": {"never": "read"}})
    assert await handle_index(await _claimed(runtime, cpu, broken, digest=digest)) == first


async def test_a_manifest_that_is_missing_in_storage_is_written_again(runtime: Runtime, cpu: CpuChildren) -> None:
    digest = uuid4().hex
    spec = DRAWN.model_copy(update={"seed": 2})
    first = _data(await handle_index(await _claimed(runtime, cpu, spec, digest=digest)))
    manifest_id = str(first["manifest_id"])
    (Path(runtime.settings.storage_url) / manifest_key(manifest_id)).unlink()
    assert _data(await handle_index(await _claimed(runtime, cpu, spec, digest=digest))) == first
    assert await runtime.storage.open(manifest_key(manifest_id), manifest_id)


async def test_a_dataset_of_files_is_enumerated_every_time(runtime: Runtime, cpu: CpuChildren, tmp_path: Path) -> None:
    digest = uuid4().hex
    csv = tmp_path / "annotation.csv"
    spec = DatasetSpec(name="files", version="1.0.0", type="annotation_csv", package=DRAWN.package, path=str(csv))
    csv.write_text("image_path;question;answer\n;What?;x\n", encoding="utf-8")
    first = _data(await handle_index(await _claimed(runtime, cpu, spec, digest=digest)))
    csv.write_text("image_path;question;answer\n;What?;x\nmissing.png;What?;x\n", encoding="utf-8")
    second = _data(await handle_index(await _claimed(runtime, cpu, spec, digest=digest)))
    assert (first["samples"], first["unreadable"]) == (1, 0)
    assert (second["samples"], second["unreadable"]) == (2, 1)


async def test_an_error_of_a_dataset_fails_the_job_permanently(
    runtime: Runtime, cpu: CpuChildren, tmp_path: Path
) -> None:
    absent = DatasetSpec(name="files", version="1.0.0", type="annotation_csv", path=str(tmp_path / "none.csv"))
    for spec, code in (
        (DRAWN.model_copy(update={"params": {"document": 1}}), "invalid_input"),
        (DRAWN.model_copy(update={"type": "synthetic_document"}), "not_found"),
        (absent, "not_found"),
    ):
        outcome = await ended(handle_index(await _claimed(runtime, cpu, spec, digest=uuid4().hex)))
        assert isinstance(outcome, Failed)
        assert (outcome.code, outcome.permanent) == (code, True)


async def test_images_are_checked_by_the_run_s_limits(runtime: Runtime, cpu: CpuChildren) -> None:
    job = await _claimed(runtime, cpu, DRAWN, digest=uuid4().hex, limits={"max_image_pixels": 100})
    data = _data(await handle_index(job))
    assert data["unreadable"] == data["samples"]


async def test_a_lost_claim_writes_no_row(runtime: Runtime, cpu: CpuChildren) -> None:
    digest = uuid4().hex
    job = await _claimed(runtime, cpu, DRAWN, digest=digest)
    async with runtime.database.transaction() as session:
        rows = table_of(JobRow)
        await session.execute(update(rows).where(rows.c.id == job.job.id).values(claim_id=uuid4()))
    with pytest.raises(Fenced):
        await handle_index(job)
    async with runtime.database.transaction() as session:
        assert await manifests.of_dataset(session, digest) is None
