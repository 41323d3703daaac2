from __future__ import annotations

import hashlib
import io
from pathlib import Path
from uuid import UUID, uuid4

import polars
import pytest
from sqlalchemy import text

from tests.support.builders import Shard, add_run, add_shard, chunk_frame, new_fact, store_chunk
from vlmhyperbench.db import manifests, phases, reuse
from vlmhyperbench.db.appending import append
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.fact_rows import FACT_COLUMNS
from vlmhyperbench.db.views import ReusedFactView
from vlmhyperbench.domain.states import FactStatus
from vlmhyperbench.errors import Damaged, InvalidInput, NotFound
from vlmhyperbench.facts.read import read_facts
from vlmhyperbench.facts.schema import PAYLOAD_COLUMNS, polars_schema, write_chunk
from vlmhyperbench.facts.sealing import chunk_key
from vlmhyperbench.storage import Storage, open_storage

pytestmark = pytest.mark.anyio


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(str(tmp_path / "storage"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


async def _give_manifest(database: Database, storage: Storage, run_id: UUID, samples: int) -> None:
    buffer = io.BytesIO()
    polars.DataFrame(
        {
            "index": range(samples),
            "key": [f"key-{index}" for index in range(samples)],
            "question": ["What?"] * samples,
            "references": [[f"answer {index}"] for index in range(samples)],
            "images": [[{"sha256": "i" * 64}]] * samples,
            "error": [None] * samples,
            "metadata": ["{}"] * samples,
            "group.doc_class": ["receipt" if index % 2 else "invoice" for index in range(samples)],
        },
        schema_overrides={"error": polars.String},
    ).write_parquet(buffer)
    content = buffer.getvalue()
    sha256 = hashlib.sha256(content).hexdigest()
    stored = storage.put(f"manifests/{sha256}.parquet", content)
    async with database.transaction() as session:
        await manifests.add(
            session,
            manifest_id=sha256,
            dataset_digest="d",
            storage_key=stored.key,
            size_bytes=stored.size_bytes,
            samples=samples,
            unreadable=0,
            group_columns=["doc_class"],
        )
        await session.execute(
            text("UPDATE run SET manifest_id = :manifest, total = :total WHERE id = :id"),
            {"manifest": sha256, "total": samples, "id": run_id},
        )


async def _answer(
    database: Database, storage: Storage, folder: Path, shard: Shard, ordinals: list[int], *, no: int = 0
) -> None:
    """Append one answered request per ordinal; its text names the shard's run and the ordinal."""
    texts = [f"{shard.run.name} {ordinal}" for ordinal in ordinals]
    frame = chunk_frame(texts, ordinals=ordinals, phase=shard.phase)
    chunk = store_chunk(storage, folder, frame, run_id=shard.run.id, claim_id=shard.claim_id, phase=shard.phase, no=no)
    async with database.transaction() as session:
        rows = [new_fact(ordinal, row=row) for row, ordinal in enumerate(ordinals)]
        assert await append(session, job_id=shard.job_id, claim_id=shard.claim_id, chunk=chunk, rows=rows)


async def _shard(database: Database, name: str, *, phase: int = 1) -> Shard:
    async with database.transaction() as session:
        run = await add_run(session, name=name)
        return await add_shard(session, run=run, phase=phase)


async def test_facts_come_with_their_payloads_and_samples(database: Database, storage: Storage, folder: Path) -> None:
    shard = await _shard(database, "mine")
    await _give_manifest(database, storage, shard.run.id, 4)
    await _answer(database, storage, folder, shard, [2, 0], no=0)
    await _answer(database, storage, folder, shard, [3, 1], no=1)
    facts = await read_facts(database, storage, shard.run.id)
    assert facts["ordinal"].to_list() == [0, 1, 2, 3]
    assert facts["text"].to_list() == ["mine 0", "mine 1", "mine 2", "mine 3"]
    assert facts["key"].to_list() == ["key-0", "key-1", "key-2", "key-3"]
    assert facts["references"].to_list()[3] == ["answer 3"]
    assert facts["group.doc_class"].to_list() == ["invoice", "receipt", "invoice", "receipt"]
    assert facts["event_ns"].to_list()[0] == [10, 20]
    assert facts["is_reused"].to_list() == [False] * 4
    assert facts["run_id"].unique().to_list() == [str(shard.run.id)]
    assert facts["tpot_ns"].to_list() == [1_000_000.0] * 4
    expected = [
        *FACT_COLUMNS,
        *PAYLOAD_COLUMNS,
        "key",
        "question",
        "references",
        "images",
        "metadata",
        "group.doc_class",
    ]
    assert facts.columns == expected


async def test_a_run_without_facts_has_the_same_columns(database: Database, storage: Storage) -> None:
    shard = await _shard(database, "empty")
    facts = await read_facts(database, storage, shard.run.id)
    assert facts.height == 0
    assert facts.columns == [*FACT_COLUMNS, *PAYLOAD_COLUMNS]


async def test_payloads_are_read_only_where_they_are_wanted(database: Database, storage: Storage, folder: Path) -> None:
    shard = await _shard(database, "narrow")
    await _answer(database, storage, folder, shard, [0])
    assert (await read_facts(database, storage, shard.run.id, payload=False)).columns == list(FACT_COLUMNS)
    some = await read_facts(database, storage, shard.run.id, payload=["text"])
    assert some.columns == [*FACT_COLUMNS, "text"]


async def test_a_fact_without_a_chunk_has_no_payload(database: Database, storage: Storage) -> None:
    shard = await _shard(database, "quarantined")
    async with database.transaction() as session:
        await session.execute(
            text("""
            INSERT INTO fact (run_id, phase, ordinal, sample, repeat, turn, member, stream, status, origin, tries,
                              request_sha256, claim_id, chunk, row)
            VALUES (:run, 1, 7, 7, 0, 0, 0, 0, 'quarantined', 'live', 1, '', :claim, -1, 0)
            """),
            {"run": shard.run.id, "claim": uuid4()},
        )
    facts = await read_facts(database, storage, shard.run.id)
    assert facts["status"].to_list() == [FactStatus.QUARANTINED.value]
    assert facts["text"].to_list() == [None]


@pytest.mark.parametrize(
    ("kind", "state", "counts"),
    [
        ("accuracy", "OPEN", True),
        ("accuracy", "COMPLETE", True),
        ("accuracy", "STOPPED", True),
        ("accuracy", "VOID", False),
        ("single_stream", "OPEN", False),
        ("single_stream", "COMPLETE", True),
        ("single_stream", "VOID", False),
        ("warmup", "COMPLETE", False),
        ("judge", "COMPLETE", False),
    ],
)
async def test_only_phases_that_count_are_read(
    database: Database, storage: Storage, folder: Path, kind: str, state: str, counts: bool
) -> None:
    shard = await _shard(database, "phases")
    await _answer(database, storage, folder, shard, [0])
    async with database.transaction() as session:
        await session.execute(
            text("UPDATE phase SET kind = :kind, counts = :counts, state = :state WHERE run_id = :run"),
            {"kind": kind, "counts": kind not in {"warmup", "judge"}, "state": state, "run": shard.run.id},
        )
    assert (await read_facts(database, storage, shard.run.id)).height == int(counts)
    assert (await read_facts(database, storage, shard.run.id, phases="all")).height == 1
    assert (await read_facts(database, storage, shard.run.id, phases=[1])).height == 1
    assert (await read_facts(database, storage, shard.run.id, phases=[2])).height == 0


async def test_a_kept_phase_is_read_from_the_run_that_measured_it(
    database: Database, storage: Storage, folder: Path
) -> None:
    parent = await _shard(database, "parent")
    await _answer(database, storage, folder, parent, [0, 1])
    async with database.transaction() as session:
        child = await add_run(session, name="child", parent_run_id=parent.run.id)
        grandchild = await add_run(session, name="grandchild", parent_run_id=child.id)
        for run in (child, grandchild):
            await phases.add(session, run_id=run.id, no=5, step=1, kind="accuracy", counts=True, params={}, count=2)
        await reuse.add_phase(session, child.id, 5, source_run_id=parent.run.id, source_phase=1)
        await reuse.add_phase(session, grandchild.id, 5, source_run_id=child.id, source_phase=5)
    await _give_manifest(database, storage, grandchild.id, 2)
    for run_id in (child.id, grandchild.id):
        facts = await read_facts(database, storage, run_id)
        assert facts["text"].to_list() == ["parent 0", "parent 1"]
        assert facts["phase"].to_list() == [5, 5]
        assert facts["source_phase"].to_list() == [1, 1]
        assert facts["is_reused"].to_list() == [True, True]
        assert facts["run_id"].unique().to_list() == [str(parent.run.id)]


async def test_kept_rows_stand_beside_own_ones_under_this_runs_ordinals(
    database: Database, storage: Storage, folder: Path
) -> None:
    parent, child = await _shard(database, "parent"), await _shard(database, "child")
    await _give_manifest(database, storage, parent.run.id, 3)
    await _give_manifest(database, storage, child.run.id, 2)
    await _answer(database, storage, folder, parent, [0, 1, 2])
    await _answer(database, storage, folder, child, [0, 2])
    async with database.transaction() as session:
        await reuse.add_facts(
            session,
            [
                ReusedFactView(
                    run_id=child.run.id,
                    phase=1,
                    ordinal=3,
                    source_run_id=parent.run.id,
                    source_phase=1,
                    source_ordinal=2,
                    is_ok=True,
                )
            ],
        )
        assert len(await reuse.facts_of_run(session, child.run.id)) == 1
    facts = await read_facts(database, storage, child.run.id)
    assert facts["ordinal"].to_list() == [0, 2, 3]
    assert facts["text"].to_list() == ["child 0", "child 2", "parent 2"]
    assert facts["is_reused"].to_list() == [False, False, True]
    kept_row = facts.row(2, named=True)
    assert (kept_row["sample"], kept_row["repeat"], kept_row["key"]) == (1, 1, "key-1")


async def test_a_chunk_that_was_changed_in_storage_is_refused(
    database: Database, storage: Storage, folder: Path, tmp_path: Path
) -> None:
    shard = await _shard(database, "damaged")
    await _answer(database, storage, folder, shard, [0])
    key = chunk_key(shard.run.id, shard.claim_id, 1, 0)
    path = tmp_path / "storage" / key
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(Damaged) as refused:
        await read_facts(database, storage, shard.run.id)
    assert (refused.value.code, refused.value.key) == ("storage_corrupt", key)
    assert refused.value.found == hashlib.sha256(path.read_bytes()).hexdigest()


async def test_a_chunk_that_is_gone_is_named(
    database: Database, storage: Storage, folder: Path, tmp_path: Path
) -> None:
    shard = await _shard(database, "gone")
    await _answer(database, storage, folder, shard, [0])
    key = chunk_key(shard.run.id, shard.claim_id, 1, 0)
    (tmp_path / "storage" / key).unlink()
    with pytest.raises(Damaged) as refused:
        await read_facts(database, storage, shard.run.id)
    assert (refused.value.key, refused.value.found) == (key, None)


async def test_a_run_that_does_not_exist_is_not_found(database: Database, storage: Storage) -> None:
    with pytest.raises(NotFound):
        await read_facts(database, storage, uuid4())


def test_a_chunk_must_have_every_column(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="text"):
        write_chunk(chunk_frame(["a"]).drop("text"), tmp_path / "chunk.parquet")


def test_a_chunk_must_fit_its_schema(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="schema"):
        write_chunk(chunk_frame(["a"]).with_columns(tries=polars.lit("many")), tmp_path / "chunk.parquet")


def test_a_chunk_is_written_in_the_order_of_its_schema(tmp_path: Path) -> None:
    frame = chunk_frame(["a"])
    write_chunk(frame.select(sorted(frame.columns)).with_columns(more=polars.lit(1)), tmp_path / "chunk.parquet")
    assert polars.read_parquet(tmp_path / "chunk.parquet").schema == polars_schema()


@pytest.mark.parametrize("payload", [True, ("cached_tokens",), ("cached_tokens", "text")])
async def test_a_chunk_of_an_earlier_version_lacks_what_was_recorded_later(
    database: Database, storage: Storage, monkeypatch: pytest.MonkeyPatch, folder: Path, payload: bool | tuple[str, ...]
) -> None:
    shard = await _shard(database, "old")

    def write_earlier(frame: polars.DataFrame, path: Path) -> None:
        frame.drop("cached_tokens").write_parquet(path)

    with monkeypatch.context() as patch:
        patch.setattr("tests.support.builders.write_chunk", write_earlier)
        await _answer(database, storage, folder, shard, [0, 1])
    await _answer(database, storage, folder, shard, [2], no=1)
    facts = await read_facts(database, storage, shard.run.id, payload=payload)
    assert facts["ordinal"].to_list() == [0, 1, 2]
    assert facts["cached_tokens"].to_list() == [None] * 3
    if payload is not True and "text" in payload:
        assert facts["text"].to_list() == ["old 0", "old 1", "old 2"]
