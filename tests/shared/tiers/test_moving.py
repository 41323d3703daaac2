"""Rows leave Postgres and come back, each of them once, whatever happens in between."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from uuid import UUID, uuid4

import polars
import pytest
from sqlalchemy import text

from tests.shared.tiers.stored_runs import answered, assert_equal, count, everything, finish, reusing
from tests.support.builders import new_fact, open_shard, unstored_chunk
from tests.support.processes import eventually
from vlmhyperbench.db import events, tiers
from vlmhyperbench.db.appending import append
from vlmhyperbench.db.engine import Database
from vlmhyperbench.domain.tiers import Tier
from vlmhyperbench.errors import Conflict, Damaged, NotFound
from vlmhyperbench.facts.pages import reused_claim_ids
from vlmhyperbench.storage import Storage, open_storage
from vlmhyperbench.tiers.moving import drop_rows, to_hot, to_warm, write_rows

pytestmark = pytest.mark.anyio


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(str(tmp_path / "storage"))


async def test_a_warm_run_reads_like_a_hot_one(database: Database, storage: Storage, tmp_path: Path) -> None:
    run = (await answered(database, storage, tmp_path)).run.id
    hot = await everything(database, storage, run)
    assert hot.facts.height == 9
    assert [len(page) for page in hot.pages] == [4, 2, 3, 3, 2, 1, 3, 0]
    assert (hot.failures.ok, [group.count for group in hot.failures.failures]) == (6, [2, 1])
    moved = await to_warm(database, storage, run, folder=tmp_path)
    assert (moved.tier, moved.rows, await count(database, run)) == (Tier.WARM, 9, 0)
    assert_equal(await everything(database, storage, run), hot)
    back = await to_hot(database, storage, run)
    assert (back.tier, back.rows, await count(database, run)) == (Tier.HOT, 9, 9)
    assert_equal(await everything(database, storage, run), hot)
    async with database.transaction() as session:
        stream = await events.after(session, run, 0)
    assert [(event.type, event.data["from"], event.data["to"]) for event in stream[-2:]] == [
        ("run.moved", "hot", "warm"),
        ("run.moved", "warm", "hot"),
    ]


@pytest.mark.parametrize(
    ("phase", "ordinals"), [(True, {}), (False, {0: 3, 4: 1, 7: 8}), (True, {11: 0})], ids=["phase", "rows", "both"]
)
async def test_a_run_reads_the_same_whatever_tier_its_sources_have(
    database: Database, storage: Storage, tmp_path: Path, *, phase: bool, ordinals: dict[int, int]
) -> None:
    source = (await answered(database, storage, tmp_path)).run.id
    child = await reusing(database, source, phase=phase, ordinals=ordinals)
    hot = await everything(database, storage, child)
    assert hot.facts.height == (9 if phase else 0) + len(ordinals)
    assert await _claims_in_files(database, storage, child) == set()
    await to_warm(database, storage, source, folder=tmp_path)
    assert_equal(await everything(database, storage, child), hot)
    assert await _claims_in_files(database, storage, child) == set(hot.facts["claim_id"])
    grandchild = await reusing(database, child, phase=phase, ordinals=ordinals, rows_of=source)
    assert (await everything(database, storage, grandchild)).facts.equals(hot.facts)
    await to_warm(database, storage, child, folder=tmp_path)
    assert_equal(await everything(database, storage, child), hot)


async def _claims_in_files(database: Database, storage: Storage, run_id: UUID) -> set[str]:
    """The claims that measured what a run reuses, as far as Postgres no longer knows them."""
    async with database.snapshot() as session:
        return {str(claim_id) for claim_id in await reused_claim_ids(session, storage, run_id)}


async def test_a_run_without_rows_moves_too(database: Database, storage: Storage, tmp_path: Path) -> None:
    shard = await answered(database, storage, tmp_path, rows=0, chunks=0)
    assert (await to_warm(database, storage, shard.run.id, folder=tmp_path)).rows == 0
    assert (await everything(database, storage, shard.run.id)).facts.height == 0
    assert (await to_hot(database, storage, shard.run.id)).rows == 0


async def test_rows_that_are_not_in_the_file_are_never_deleted(
    database: Database, storage: Storage, tmp_path: Path
) -> None:
    shard = await answered(database, storage, tmp_path)
    stored = await write_rows(database, storage, shard.run.id, folder=tmp_path)
    async with database.transaction() as session:
        await session.execute(
            text(
                "INSERT INTO fact SELECT (jsonb_populate_record(f, '{\"ordinal\": 108}')).* FROM fact f"
                " WHERE run_id = :run AND ordinal = 8"
            ),
            {"run": shard.run.id},
        )
    with pytest.raises(Conflict) as refused:
        await drop_rows(database, storage, shard.run.id, stored)
    assert refused.value.code == "tier_differs"
    assert stored.key in refused.value.message
    assert await count(database, shard.run.id) == 10


async def test_a_row_that_differs_in_one_value_is_noticed(database: Database, storage: Storage, tmp_path: Path) -> None:
    shard = await answered(database, storage, tmp_path)
    stored = await write_rows(database, storage, shard.run.id, folder=tmp_path)
    async with database.transaction() as session:
        await session.execute(
            text("UPDATE fact SET latency_ns = latency_ns + 1 WHERE run_id = :run AND ordinal = 7"),
            {"run": shard.run.id},
        )
    with pytest.raises(Conflict) as refused:
        await drop_rows(database, storage, shard.run.id, stored)
    assert refused.value.code == "tier_differs"
    assert await count(database, shard.run.id) == 9


async def test_a_file_that_lacks_a_row_is_not_restored(database: Database, storage: Storage, tmp_path: Path) -> None:
    """A wrong file whose hash is right, which only the count of the rows that left Postgres can tell."""
    run = (await answered(database, storage, tmp_path)).run.id
    await to_warm(database, storage, run, folder=tmp_path)
    async with database.transaction() as session:
        tier = await tiers.get(session, run)
        assert tier is not None
        path = await storage.open(tier.facts_key or "", tier.facts_sha256 or "")
        polars.read_parquet(path).head(8).write_parquet(tmp_path / "short.parquet")
        short = storage.put(f"runs/{run}/facts/short.parquet", tmp_path / "short.parquet")
        await tiers.write(session, run, {"facts_key": short.key, "facts_sha256": short.sha256})
    with pytest.raises(Conflict) as refused:
        await to_hot(database, storage, run)
    assert refused.value.code == "tier_differs"
    assert await count(database, run) == 0


async def test_a_damaged_file_is_refused_by_name(database: Database, storage: Storage, tmp_path: Path) -> None:
    run = (await answered(database, storage, tmp_path)).run.id
    await to_warm(database, storage, run, folder=tmp_path)
    [file] = (tmp_path / "storage" / "runs" / str(run) / "facts").iterdir()
    content = file.read_bytes()
    file.write_bytes(content[:-9] + b"x" + content[-8:])
    for reading in (to_hot(database, storage, run), everything(database, storage, run)):
        with pytest.raises(Damaged) as damaged:
            await reading
        assert file.name in damaged.value.message
    file.write_bytes(content)
    assert (await to_hot(database, storage, run)).rows == 9


async def test_only_a_finished_run_moves(database: Database, storage: Storage, tmp_path: Path) -> None:
    shard = await answered(database, storage, tmp_path, is_finished=False)
    with pytest.raises(Conflict) as refused:
        await to_warm(database, storage, shard.run.id, folder=tmp_path)
    assert refused.value.code == "run_open"
    with pytest.raises(NotFound):
        await to_warm(database, storage, uuid4(), folder=tmp_path)
    await finish(database, shard.run.id)
    with pytest.raises(Conflict) as refused:
        await to_hot(database, storage, shard.run.id)
    assert refused.value.code == "other_tier"


async def test_a_run_whose_failed_request_another_run_names_stays(
    database: Database, storage: Storage, tmp_path: Path
) -> None:
    run = (await answered(database, storage, tmp_path)).run.id
    await reusing(database, run, phase=False, ordinals={0: 2})
    with pytest.raises(Conflict) as refused:
        await to_warm(database, storage, run, folder=tmp_path)
    assert refused.value.code == "run_referenced"
    assert await count(database, run) == 9


async def test_another_run_appends_while_one_moves(database: Database, storage: Storage, tmp_path: Path) -> None:
    run = (await answered(database, storage, tmp_path, rows=600)).run.id
    hot = await everything(database, storage, run)
    writing = await open_shard(database, end=400)

    async def write() -> None:
        for no in range(20):
            rows = [new_fact(20 * no + place, row=place) for place in range(20)]
            chunk = unstored_chunk(writing, no=no, rows=20)
            async with database.transaction() as session:
                assert await append(session, job_id=writing.job_id, claim_id=writing.claim_id, chunk=chunk, rows=rows)

    async with asyncio.TaskGroup() as group:
        group.create_task(write())
        group.create_task(to_warm(database, storage, run, folder=tmp_path))
    assert (await count(database, writing.run.id), await count(database, run)) == (400, 0)
    assert_equal(await everything(database, storage, run), hot)


async def test_two_that_move_one_run_at_once_move_it_once(database: Database, storage: Storage, tmp_path: Path) -> None:
    run = (await answered(database, storage, tmp_path)).run.id
    moves = [to_warm(database, storage, run, folder=tmp_path) for _ in range(3)]
    ended = await asyncio.gather(*moves, return_exceptions=True)
    assert sorted(type(end).__name__ for end in ended) == ["Conflict", "Conflict", "Moved"]
    assert (await everything(database, storage, run)).facts.height == 9


async def test_a_move_that_is_killed_before_its_end_changes_nothing_and_succeeds_the_next_time(
    fresh_database: Database, fresh_database_url: str, storage: Storage, tmp_path: Path
) -> None:
    run = (await answered(fresh_database, storage, tmp_path)).run.id
    hot = await everything(fresh_database, storage, run)
    async with fresh_database.transaction() as session:  # the move has written its file when it waits for this lock
        await session.execute(text("SELECT 1 FROM run WHERE id = :run FOR UPDATE"), {"run": run})
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _MOVE, fresh_database_url, str(tmp_path), str(run)
        )
        try:
            await eventually(lambda: _waits(fresh_database), "the move waits for the run")
        finally:
            process.kill()
            await process.wait()
    assert len(list((tmp_path / "storage" / "runs" / str(run) / "facts").iterdir())) == 1
    assert_equal(await everything(fresh_database, storage, run), hot)
    assert await count(fresh_database, run) == 9
    await to_warm(fresh_database, storage, run, folder=tmp_path)
    assert_equal(await everything(fresh_database, storage, run), hot)


async def _waits(database: Database) -> bool:
    async with database.transaction() as session:
        return bool((await session.execute(text(_WAITING))).scalar_one())


_WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE wait_event_type = 'Lock' AND datname = current_database() AND query LIKE '%FOR NO KEY UPDATE%'
"""

_MOVE = """
import asyncio, sys
from pathlib import Path
from uuid import UUID
from vlmhyperbench.db.engine import Database
from vlmhyperbench.storage import open_storage
from vlmhyperbench.tiers.moving import to_warm

url, folder, run = sys.argv[1:]
database, storage = Database(url, statement_timeout_s=600), open_storage(folder + "/storage")
asyncio.run(to_warm(database, storage, UUID(run), folder=Path(folder)))
"""
