"""REPORT against a real database, bus and storage: facts and measures in, fenced artifacts out."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from uuid import UUID, uuid4

import polars
import pytest
from PIL import Image, ImageDraw
from sqlalchemy import insert, update

from tests.support.builders import add_run, add_shard, add_worker, chunk_frame, new_fact, run_spec, store_chunk
from tests.support.handling import ended
from tests.support.wording import Wording
from vlmhyperbench.data.images import ImageInfo, check, image_key
from vlmhyperbench.data.manifest import ManifestSample, manifest_key, write
from vlmhyperbench.db import artifacts, events, experiments, jobs, manifests, runs
from vlmhyperbench.db.appending import append
from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import JobRow, RunRow
from vlmhyperbench.db.views import ArtifactView
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.outcomes import Complete, Failed, Preempted
from vlmhyperbench.domain.specs import Limits, MetricSpec, ReportWriterSpec
from vlmhyperbench.domain.states import FactStatus, JobState
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.errors import Damaged, Fenced
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.summaries.tokens import LONGEST_GAP
from vlmhyperbench.wire.runs import Headline, MetricScore
from vlmhyperbench.worker.children import CpuChildren
from vlmhyperbench.worker.claims import ClaimedJob, WorkerContext
from vlmhyperbench_eval_worker.evaluation import handle_score
from vlmhyperbench_reporter.events import read_events
from vlmhyperbench_reporter.reading import read_bundle
from vlmhyperbench_reporter.reporting import handle_report

pytestmark = pytest.mark.anyio

EXACT = MetricSpec(name="exact_match", profile="v1", version="1.0.0", class_path="exact_match")
ANLS = MetricSpec(name="anls", profile="paper", version="1.0.0", class_path="anls")
REFERENCES = ("one", "two", "three", "four", "five", "six")
RIGHT_ONCE = ("one", "wrong", "", "<script>alert(1)</script>", "five")
RIGHT_TWICE = ("one", "two", "", "four", "5")


async def _answered(
    runtime: Runtime,
    cpu: CpuChildren,
    folder: Path,
    answers: tuple[str, ...] = RIGHT_ONCE,
    *,
    metrics: tuple[MetricSpec, ...] = (EXACT, ANLS),
    experiment_id: UUID | None = None,
    position: int = 0,
    **changes: object,
) -> UUID:
    """Make a scored run of six samples with pages; the last request failed."""
    spec = run_spec().model_copy(update={"metrics": metrics, **changes})
    pages = [await asyncio.to_thread(_page, runtime, reference) for reference in REFERENCES]
    samples = [
        ManifestSample(
            index=i,
            key=f"s{i}",
            question="What is it?",
            references=(reference,),
            images=(page,),
            metadata={"doc_class": "ab"[i % 2], "question_type": "field"},
        )
        for i, (reference, page) in enumerate(zip(REFERENCES, pages, strict=True))
    ]
    manifest_id, content = write(samples)
    runtime.storage.put(manifest_key(manifest_id), content)
    async with runtime.database.transaction() as session:
        run = await add_run(session, spec=spec, name=f"run {position}", experiment_id=experiment_id, position=position)
        if await manifests.get(session, manifest_id) is None:
            await manifests.add(
                session,
                manifest_id=manifest_id,
                dataset_digest=digest_of(spec.dataset),
                storage_key=manifest_key(manifest_id),
                size_bytes=len(content),
                samples=6,
                unreadable=0,
                group_columns=["doc_class", "question_type"],
            )
        row = table_of(RunRow)
        await session.execute(update(row).where(row.c.id == run.id).values(manifest_id=manifest_id, total=6))
        shard = await add_shard(session, run=run, end=6)
        frame = chunk_frame([*answers, ""])
        chunk = store_chunk(runtime.storage, folder, frame, run_id=run.id, claim_id=shard.claim_id)
        facts = [new_fact(i, row=i) for i in range(5)] + [new_fact(5, row=5, status=FactStatus.ERROR)]
        assert await append(session, job_id=shard.job_id, claim_id=shard.claim_id, chunk=chunk, rows=facts)
    assert isinstance(await handle_score(await _claimed(runtime, cpu, StepKind.SCORE, run_id=run.id)), Complete)
    return run.id


def _page(runtime: Runtime, text: str) -> ImageInfo:
    image = Image.new("L", (192, 96), 230)
    ImageDraw.Draw(image).text((4, 4), text, fill=20)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    found = check(buffer.getvalue(), limits=Limits())
    runtime.storage.put(image_key(found.sha256), buffer.getvalue())
    return found


async def _claimed(
    runtime: Runtime, cpu: CpuChildren, kind: StepKind, *, run_id: UUID | None = None, experiment_id: UUID | None = None
) -> ClaimedJob:
    """Make a job of the run, or of the experiment, that this process has claimed."""
    job_id, claim_id = uuid4(), uuid4()
    async with runtime.database.transaction() as session:
        worker_id = await add_worker(session)
        await session.execute(
            insert(table_of(JobRow)).values(
                step=0,
                counts=False,
                id=job_id,
                kind=kind.value,
                scope="run" if run_id else "experiment",
                run_id=run_id,
                experiment_id=experiment_id,
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
        worker_id=worker_id, boot_id=uuid4(), name="test", runtime=runtime, settings=runtime.settings, label={}
    )
    return ClaimedJob(job, claim_id=claim_id, context=context, cpu=cpu)


async def _report(runtime: Runtime, cpu: CpuChildren, run_id: UUID) -> dict[str, bytes]:
    job = await _claimed(runtime, cpu, StepKind.REPORT, run_id=run_id)
    assert isinstance(await handle_report(job), Complete)
    async with runtime.database.transaction() as session:
        files = await artifacts.of_run(session, run_id)
    return {file.name: await _content(runtime, file) for file in files}


async def _content(runtime: Runtime, artifact: ArtifactView) -> bytes:
    return (await runtime.storage.open(artifact.storage_key, artifact.sha256)).read_bytes()


async def test_a_run_gets_every_file_of_its_report(runtime: Runtime, cpu: CpuChildren, tmp_path: Path) -> None:
    run_id = await _answered(runtime, cpu, tmp_path)
    files = await _report(runtime, cpu, run_id)
    assert {
        *("report.md", "report.html", "report.json"),
        *("answers.csv", "manifest.json", "metrics_detailed.csv", "metrics_summary.csv", "samples.parquet"),
        *("latency.svg", "ttft.svg", "quality-by-doc-class.svg"),
    } <= set(files)
    (row,) = json.loads(files["report.json"])["headline"]["rows"]
    assert (row["requested"], row["ok"], row["model_failures"], row["infrastructure_failures"]) == (6, 5, 1, 0)
    assert row["metrics"]["exact_match"]["value"] == pytest.approx(2 / 6)
    assert row["state"] == "PARTIAL"
    page = files["report.html"].decode()
    assert "data:image/webp;base64," in page
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "page-" in files["report.md"].decode()


async def test_the_scores_of_a_report_are_stored_with_its_run(
    runtime: Runtime, cpu: CpuChildren, tmp_path: Path
) -> None:
    run_id = await _answered(runtime, cpu, tmp_path)
    report = json.loads((await _report(runtime, cpu, run_id))["report.json"])
    async with runtime.database.transaction() as session:
        run = await runs.get(session, run_id)
    assert run is not None
    kept = Headline.model_validate(run.headline)
    assert [score.metric for score in kept.scores] == ["exact_match", "anls"]
    (row,) = report["headline"]["rows"]
    assert kept.scores[1].model_dump() == {
        "metric": "anls",
        **{name: value for name, value in row["metrics"]["anls"].items() if name in MetricScore.model_fields},
    }
    assert (kept.requested, kept.ok, kept.model_failures) == (6, 5, row["model_failures"])


async def test_every_report_is_announced_once_and_figures_are_not(
    runtime: Runtime, cpu: CpuChildren, tmp_path: Path
) -> None:
    run_id = await _answered(runtime, cpu, tmp_path)
    await _report(runtime, cpu, run_id)
    async with runtime.database.transaction() as session:
        messages = [
            str(event.data["name"])
            for event in await events.after(session, run_id, 0)
            if event.type == "artifact.ready"
        ]
    assert sorted(messages) == [
        *("answers.csv", "manifest.json", "metrics_detailed.csv", "metrics_summary.csv"),
        *("report.html", "report.json", "report.md", "samples.parquet", "summary.json"),
    ]


PLUGIN = """
from vlmhyperbench_sdk.protocols import WrittenReport

class Title:
    def write(self, report):
        return WrittenReport(content=report["scope"].encode(), suffix=".txt", media_type="text/plain")

class Breaks:
    def write(self, report):
        return report["nothing"]
"""


async def test_a_plugin_writes_its_file_and_one_that_fails_is_a_limitation_and_an_event(
    runtime: Runtime, cpu: CpuChildren, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "writing.py").write_text(PLUGIN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    writers = [ReportWriterSpec(name=name.lower(), class_path=f"writing:{name}") for name in ("Breaks", "Title")]
    run_id = await _answered(runtime, cpu, tmp_path, reports=("json", *writers))
    files = await _report(runtime, cpu, run_id)
    assert (files["report.title.txt"], "report.html" in files) == (b"run", False)
    limitations = next(
        section for section in json.loads(files["report.json"])["sections"] if section["name"] == "limitations"
    )
    assert "breaks" in limitations["blocks"][0]["items"][-1]
    async with runtime.database.transaction() as session:
        incomplete = [
            event.data for event in await events.after(session, run_id, 0) if event.type == "report.incomplete"
        ]
    assert [(data["name"], data["code"]) for data in incomplete] == [("breaks", "plugin_failure")]


async def test_the_same_facts_give_the_same_report(runtime: Runtime, cpu: CpuChildren, tmp_path: Path) -> None:
    run_id = await _answered(runtime, cpu, tmp_path)
    assert await _report(runtime, cpu, run_id) == await _report(runtime, cpu, run_id)


async def test_an_experiment_gets_a_comparison_of_its_runs(
    runtime: Runtime, cpu: CpuChildren, tmp_path: Path, wording: Wording
) -> None:
    async with runtime.database.transaction() as session:
        experiment = await experiments.add(
            session, project_id="default", created_by="tester", name="two", spec={}, spec_digest="0" * 64
        )
    for position, answers in enumerate((RIGHT_ONCE, RIGHT_TWICE)):
        await _answered(runtime, cpu, tmp_path, answers, experiment_id=experiment.id, position=position)
    job = await _claimed(runtime, cpu, StepKind.REPORT, experiment_id=experiment.id)
    assert isinstance(await handle_report(job), Complete)
    async with runtime.database.transaction() as session:
        files = {file.name: file for file in await artifacts.of_experiment(session, experiment.id)}
    assert {"report.md", "report.html", "report.json", "metrics_summary.csv", "flip-matrix-1.svg"} <= set(files)
    assert files["report.html"].storage_key == f"experiments/{experiment.id}/reports/{job.claim_id}/report.html"
    report = json.loads(await _content(runtime, files["report.json"]))
    assert [row["name"] for row in report["headline"]["rows"]] == ["run 0", "run 1"]
    wording(report["verdict"][2])


async def test_a_run_that_was_never_indexed_stands_in_the_comparison_without_numbers(
    runtime: Runtime, cpu: CpuChildren, tmp_path: Path
) -> None:
    async with runtime.database.transaction() as session:
        experiment = await experiments.add(
            session, project_id="default", created_by="tester", name="two", spec={}, spec_digest="0" * 64
        )
        await add_run(session, name="never", experiment_id=experiment.id, position=1)
    await _answered(runtime, cpu, tmp_path, experiment_id=experiment.id)
    job = await _claimed(runtime, cpu, StepKind.REPORT, experiment_id=experiment.id)
    assert isinstance(await handle_report(job), Complete)
    async with runtime.database.transaction() as session:
        files = {file.name: file for file in await artifacts.of_experiment(session, experiment.id)}
    rows = json.loads(await _content(runtime, files["report.json"]))["headline"]["rows"]
    assert [row["requested"] for row in rows] == [6, 0]


async def test_only_the_formats_of_the_run_are_written(runtime: Runtime, cpu: CpuChildren, tmp_path: Path) -> None:
    run_id = await _answered(runtime, cpu, tmp_path, reports=("json",))
    assert set(await _report(runtime, cpu, run_id)) == {
        *("report.json", "samples.parquet", "summary.json", "manifest.json"),
    }


async def test_a_run_without_metrics_gets_a_report_of_its_speed(
    runtime: Runtime, cpu: CpuChildren, tmp_path: Path
) -> None:
    run_id = await _answered(runtime, cpu, tmp_path, metrics=(), reports=("json",))
    report = json.loads((await _report(runtime, cpu, run_id))["report.json"])
    assert report["headline"]["rows"][0]["latency_p50_ms"] == 20.0
    assert "no score" in report["verdict"][0]


@pytest.mark.parametrize("is_gone", [True, False])
async def test_a_page_that_is_missing_or_damaged_in_storage_is_named_instead_of_shown(
    runtime: Runtime, cpu: CpuChildren, tmp_path: Path, *, is_gone: bool
) -> None:
    run_id = await _answered(runtime, cpu, tmp_path)
    for reference in REFERENCES:
        path = tmp_path / "storage" / image_key(_page(runtime, reference).sha256)
        if is_gone:
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:-1])
    page = (await _report(runtime, cpu, run_id))["report.html"].decode()
    assert "data:image/webp" not in page
    assert 'class="nopage"' in page


async def test_a_lost_claim_writes_nothing_and_raises_fenced(
    runtime: Runtime, cpu: CpuChildren, tmp_path: Path
) -> None:
    run_id = await _answered(runtime, cpu, tmp_path)
    job = await _claimed(runtime, cpu, StepKind.REPORT, run_id=run_id)
    job.claim_id = uuid4()
    with pytest.raises(Fenced):
        await handle_report(job)
    async with runtime.database.transaction() as session:
        assert await artifacts.of_run(session, run_id) == []


async def test_a_draining_worker_gives_the_job_back(runtime: Runtime, cpu: CpuChildren, tmp_path: Path) -> None:
    run_id = await _answered(runtime, cpu, tmp_path)
    job = await _claimed(runtime, cpu, StepKind.REPORT, run_id=run_id)
    job.draining.set()
    assert await handle_report(job) == Preempted()


async def test_measures_that_were_changed_in_storage_fail_the_job(
    runtime: Runtime, cpu: CpuChildren, tmp_path: Path
) -> None:
    run_id = await _answered(runtime, cpu, tmp_path)
    for measured in (tmp_path / "storage" / "runs" / str(run_id) / "measures").rglob("*.parquet"):
        measured.chmod(0o600)
        await asyncio.to_thread(measured.write_bytes, b"something else")
    outcome = await ended(handle_report(await _claimed(runtime, cpu, StepKind.REPORT, run_id=run_id)))
    assert isinstance(outcome, Failed)
    assert outcome.code == "storage_corrupt"


async def test_gaps_between_tokens_are_read_from_the_runs_chunks(
    runtime: Runtime, cpu: CpuChildren, tmp_path: Path
) -> None:
    run_id = await _answered(runtime, cpu, tmp_path, reports=("json",))
    bundle = await read_bundle(runtime, run_id)
    assert bundle.events is not None
    assert bundle.facts[LONGEST_GAP].to_list() == [10.0, 10.0, 10.0, 10.0, 10.0, None]
    report = json.loads((await _report(runtime, cpu, run_id))["report.json"])
    assert report["runs"][str(run_id)]["performance"]["gaps_ms"]["n"] == 5


async def test_chunks_that_were_changed_in_storage_fail_the_job(
    runtime: Runtime, cpu: CpuChildren, tmp_path: Path
) -> None:
    run_id = await _answered(runtime, cpu, tmp_path)
    bundle = await read_bundle(runtime, run_id)
    for chunk in (tmp_path / "storage" / "runs" / str(run_id) / "chunks").rglob("*.parquet"):
        chunk.chmod(0o600)
        await asyncio.to_thread(chunk.write_bytes, b"something else")
    with pytest.raises(Damaged):
        await read_events(runtime, run_id, bundle.facts.drop(LONGEST_GAP), bundle.claims)


async def test_gaps_need_no_common_clock_of_the_claims(runtime: Runtime, cpu: CpuChildren, tmp_path: Path) -> None:
    run_id = await _answered(runtime, cpu, tmp_path)
    bundle = await read_bundle(runtime, run_id)
    facts = bundle.facts.drop(LONGEST_GAP)
    died = facts.head(1).with_columns(
        claim_id=polars.lit(str(uuid4()), dtype=facts.schema["claim_id"]),
        status=polars.lit("failed", dtype=facts.schema["status"]),
    )
    facts, events = await read_events(runtime, run_id, polars.concat([facts, died]), bundle.claims)
    assert facts[LONGEST_GAP].to_list() == [10.0, 10.0, 10.0, 10.0, 10.0, None, None]
    assert (events.grid, events.gap_counts.sum()) == (None, 5)


async def test_a_run_without_timed_requests_has_no_gaps(runtime: Runtime, cpu: CpuChildren, tmp_path: Path) -> None:
    run_id = await _answered(runtime, cpu, tmp_path)
    bundle = await read_bundle(runtime, run_id)
    kept = bundle.facts.drop(LONGEST_GAP).with_columns(is_reused=True)
    facts, events = await read_events(runtime, run_id, kept, bundle.claims)
    assert not events.gap_counts.any()
    assert facts[LONGEST_GAP].null_count() == facts.height
