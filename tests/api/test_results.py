from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import polars
import pytest
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from tests.api.conftest import Served
from tests.support.builders import Shard, add_shard, chunk_frame, new_fact, store_chunk
from vlmhyperbench.data import manifest
from vlmhyperbench.data.images import ImageInfo
from vlmhyperbench.data.manifest import ManifestSample
from vlmhyperbench.db import manifests, measures, runs
from vlmhyperbench.db.appending import append
from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import RunRow
from vlmhyperbench.domain.states import FactStatus

pytestmark = pytest.mark.anyio

EVALUATION = "e0123456789ab"

IMAGE = ImageInfo(
    sha256=hashlib.sha256(b"picture").hexdigest(), media_type="image/png", width=4, height=2, size_bytes=7
)
KINDS = ("receipt", "invoice", "passport")


async def _measured_run(api: Served, folder: Path, *, samples: int = 6, chunks: int = 1) -> UUID:
    """Make a run of six answered samples, the last of which failed, scored by one metric."""
    async with api.database.transaction() as session:
        shard = await add_shard(session, end=samples)
        await _add_manifest(session, api, shard, samples)
        size = samples // chunks
        for no in range(chunks):
            numbers = range(no * size, (no + 1) * size)
            chunk = store_chunk(
                api.storage,
                folder,
                chunk_frame([f"answer {number}" for number in numbers]),
                run_id=shard.run.id,
                claim_id=shard.claim_id,
                no=no,
            )
            rows = [
                new_fact(number, row=row, status=FactStatus.ERROR if number == samples - 1 else FactStatus.OK)
                for row, number in enumerate(numbers)
            ]
            await append(session, job_id=shard.job_id, claim_id=shard.claim_id, chunk=chunk, rows=rows)
        await _add_measures(session, api, shard, samples)
    return shard.run.id


async def _add_manifest(session: AsyncSession, api: Served, shard: Shard, samples: int) -> None:
    asked = [
        ManifestSample(
            index=number,
            key=f"key-{number}",
            question=f"question {number}?",
            references=(f"reference {number}",),
            images=(IMAGE,) if number == 0 else (),
            metadata={"doc_class": KINDS[number % 3], "question_type": "field" if number < 3 else "text"},
        )
        for number in range(samples)
    ]
    api.storage.put(IMAGE.storage_key, b"picture")
    manifest_id, data = manifest.write(asked)
    stored = api.storage.put(manifest.manifest_key(manifest_id), data)
    await manifests.add(
        session,
        manifest_id=manifest_id,
        dataset_digest="d",
        storage_key=stored.key,
        size_bytes=stored.size_bytes,
        samples=samples,
        unreadable=0,
        group_columns=["doc_class", "question_type"],
    )
    run = table_of(RunRow)
    await session.execute(update(run).where(run.c.id == shard.run.id).values(manifest_id=manifest_id))


async def _add_measures(session: AsyncSession, api: Served, shard: Shard, samples: int) -> None:
    buffer = io.BytesIO()
    polars.DataFrame(
        {
            "phase": [1] * samples,
            "ordinal": range(samples),
            "field": [None] * samples,
            "extractor": ["strict"] * samples,
            "outcome": ["scored"] * (samples - 1) + ["model_failure"],
            "value": [1.0] * (samples - 1) + [0.0],
            "reason": [None] * samples,
        },
        schema_overrides={"phase": polars.Int32, "field": polars.String, "reason": polars.String},
    ).write_parquet(buffer)
    stored = api.storage.put(f"runs/{shard.run.id}/measures/{shard.claim_id}/0-anls.parquet", buffer.getvalue())
    await measures.add(
        session,
        run_id=shard.run.id,
        claim_id=shard.claim_id,
        no=0,
        job_id=shard.job_id,
        storage_key=stored.key,
        sha256=stored.sha256,
        size_bytes=stored.size_bytes,
        rows=samples,
        metrics=[{"name": "anls", "profile": "paper", "evaluation": {"judge": None, "metric": {"name": "anls"}}}],
        environment="e",
        evaluation_id=EVALUATION,
        fingerprint=None,
    )


async def test_a_result_joins_question_answer_timing_and_measures(api: Served, tmp_path: Path) -> None:
    run_id = await _measured_run(api, tmp_path)
    first = (await api.http.get(f"/results?run_id={run_id}&limit=1")).json()["items"][0]
    assert (first["key"], first["question"], first["references"]) == ("key-0", "question 0?", ["reference 0"])
    assert (first["text"], first["latency_ms"], first["ttft_ms"]) == ("answer 0", 20.0, 10.0)
    assert first["group"] == {"doc_class": "receipt", "question_type": "field"}
    assert first["outcome"] == "answered"
    (measure,) = first["measures"]
    assert (measure["metric"], measure["profile"], measure["extractor"]) == ("anls", "paper", "strict")
    assert (measure["value"], measure["evaluation_id"]) == (1.0, EVALUATION)


async def test_an_image_of_a_run_is_shown_to_its_project_alone(api: Served, tmp_path: Path) -> None:
    run_id = await _measured_run(api, tmp_path)
    path = f"/runs/{run_id}/images/{IMAGE.sha256}"
    result = await api.http.get(path)
    assert (result.status_code, result.content, result.headers["content-type"]) == (200, b"picture", "image/png")
    assert result.headers["x-content-type-options"] == "nosniff"
    stranger = {"X-API-Key": await api.add_key(project="other")}
    thumbnail = await api.http.get(f"{path}/thumbnail")  # it says that it is an image, and is none
    assert (thumbnail.status_code, thumbnail.json()["code"]) == (422, "invalid_image")
    assert (await api.http.get(f"/runs/{run_id}/images/{'0' * 64}/thumbnail")).status_code == 404
    other = f"/runs/{run_id}/images/{'0' * 64}"
    answers = [await api.http.get(path, headers=stranger), await api.http.get(other)]
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(404, "not_found")] * 2
    assert (await api.http.get(f"/runs/{run_id}/images/..%2f")).status_code in {404, 422}


async def test_results_come_page_by_page_in_their_order(api: Served, tmp_path: Path) -> None:
    run_id = await _measured_run(api, tmp_path)
    seen, cursor = [], ""
    while cursor is not None:
        page = (await api.http.get(f"/results?run_id={run_id}&limit=4&cursor={cursor}")).json()
        seen += [result["ordinal"] for result in page["items"]]
        cursor = page["next"]
    assert seen == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("filters", "ordinals"),
    [
        ("status=error", [5]),
        ("status=ok", [0, 1, 2, 3, 4]),
        ("outcome=model_failure", [5]),
        ("outcome=infrastructure_failure", []),
        ("doc_class=receipt", [0, 3]),
        ("question_type=text", [3, 4, 5]),
        ("doc_class=receipt&question_type=text", [3]),
        ("doc_class=passport&status=ok", [2]),
        ("doc_class=no-such-class", []),
    ],
)
async def test_results_are_filtered(api: Served, tmp_path: Path, filters: str, ordinals: list[int]) -> None:
    run_id = await _measured_run(api, tmp_path)
    rows = (await api.http.get(f"/results?run_id={run_id}&{filters}")).json()
    assert [result["ordinal"] for result in rows["items"]] == ordinals


async def test_a_run_that_was_not_indexed_has_no_results(api: Served) -> None:
    run = (await api.http.post("/runs", json={"run": "simulated-instant"})).json()
    assert (await api.http.get(f"/results?run_id={run['id']}&doc_class=x")).json() == {"items": [], "next": None}


def _cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def _stored_files(folder: Path, run_id: UUID, kind: str) -> list[Path]:
    return sorted((folder / "storage" / "runs" / str(run_id) / kind).rglob("*.parquet"), key=lambda file: file.name)


@pytest.mark.parametrize("damage", [Path.unlink, _cut_short])
async def test_a_result_whose_answer_is_in_a_damaged_file_is_listed_and_names_the_file(
    api: Served, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    run_id = await _measured_run(api, tmp_path, chunks=2)
    first, second = _stored_files(tmp_path, run_id, "chunks")
    damage(first)
    items = (await api.http.get(f"/results?run_id={run_id}")).json()["items"]
    assert [item["ordinal"] for item in items] == [0, 1, 2, 3, 4, 5]
    assert [item["text"] for item in items] == [None] * 3 + [f"answer {number}" for number in (3, 4, 5)]
    assert {item["latency_ms"] for item in items} == {20.0}
    assert [[measure["value"] for measure in item["measures"]] for item in items[:2]] == [[1.0], [1.0]]
    (damaged,) = items[0]["damaged"]
    assert damaged["holds"] == "answer"
    assert tmp_path / "storage" / damaged["key"] == first
    assert str(run_id) in damaged["key"]
    assert damaged["cure"]
    assert [bool(item["damaged"]) for item in items] == [True] * 3 + [False] * 3
    assert second.exists()


@pytest.mark.parametrize("damage", [Path.unlink, _cut_short])
async def test_results_without_the_scores_of_a_damaged_file_name_the_file(
    api: Served, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    run_id = await _measured_run(api, tmp_path)
    (file,) = _stored_files(tmp_path, run_id, "measures")
    damage(file)
    items = (await api.http.get(f"/results?run_id={run_id}")).json()["items"]
    assert [(item["text"], item["measures"]) for item in items[:2]] == [("answer 0", []), ("answer 1", [])]
    assert [[(part["holds"], tmp_path / "storage" / part["key"]) for part in item["damaged"]] for item in items] == [
        [("scores", file)]
    ] * 6


async def test_results_of_a_damaged_sample_manifest_are_refused(api: Served, tmp_path: Path) -> None:
    run_id = await _measured_run(api, tmp_path)
    async with api.database.transaction() as session:
        run = await runs.get(session, run_id)
    assert run is not None
    key = manifest.manifest_key(str(run.manifest_id))
    _cut_short(tmp_path / "storage" / key)
    refused = await api.http.get(f"/results?run_id={run_id}")
    assert (refused.status_code, refused.json()["code"]) == (409, "storage_corrupt")
    assert key in refused.json()["message"]
    assert refused.json()["cure"]


async def test_a_run_shows_how_many_rows_it_has(api: Served, tmp_path: Path) -> None:
    run_id = await _measured_run(api, tmp_path)
    run = (await api.http.get(f"/runs/{run_id}")).json()
    assert (run["done"], run["failed"]) == (6, 1)
    assert [phase["kind"] for phase in run["phases"]] == ["accuracy"]


async def test_an_evaluation_id_leads_to_its_components(api: Served, tmp_path: Path) -> None:
    run_id = await _measured_run(api, tmp_path)
    result = (await api.http.get(f"/evaluations/{EVALUATION}")).json()
    assert (result["id"], result["run_id"]) == (EVALUATION, str(run_id))
    assert result["components"] == {"judge": None, "metric": {"name": "anls"}}


@pytest.mark.parametrize(("evaluation", "status"), [("e000000000000", 404), ("nonsense", 422), ("E0123456789AB", 422)])
async def test_an_unknown_evaluation_is_refused(api: Served, evaluation: str, status: int) -> None:
    assert (await api.http.get(f"/evaluations/{evaluation}")).status_code == status
