"""A run becomes one archive and comes back from it, byte for byte; what is needed is never deleted."""

from __future__ import annotations

import tarfile
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import text

from tests.shared.tiers.stored_runs import answered, assert_equal, count, everything, reusing
from tests.support.builders import add_run
from vlmhyperbench.db import backup, tiers
from vlmhyperbench.db.engine import Database
from vlmhyperbench.domain.tiers import Tier, TierPolicy
from vlmhyperbench.errors import Conflict, Damaged, NotReady
from vlmhyperbench.storage import Storage, open_storage
from vlmhyperbench.tiers.archiving import from_cold, remove_loose_files, to_cold
from vlmhyperbench.tiers.housekeeping import move_due, remove_loose
from vlmhyperbench.tiers.moving import to_hot, to_warm
from vlmhyperbench.tiers.retention import delete_due, delete_orphans, orphans

pytestmark = pytest.mark.anyio
AT_ONCE = TierPolicy(warm_after_days=0, cold_after_days=0, restored_days=0, grace_s=0)
NEVER = TierPolicy(warm_after_days=1e6, cold_after_days=1e6)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(str(tmp_path / "storage"))


def keys(folder: Path) -> set[str]:
    root = folder / "storage"
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


async def cold(database: Database, storage: Storage, folder: Path) -> UUID:
    run = (await answered(database, storage, folder)).run.id
    await to_warm(database, storage, run, folder=folder)
    await to_cold(database, storage, run, folder=folder)
    return run


async def test_a_cold_run_is_one_file_that_comes_back_as_it_was(
    database: Database, storage: Storage, tmp_path: Path
) -> None:
    run = (await answered(database, storage, tmp_path)).run.id
    hot = await everything(database, storage, run)
    before = keys(tmp_path)
    await to_warm(database, storage, run, folder=tmp_path)
    moved = await to_cold(database, storage, run, folder=tmp_path)
    assert (moved.tier, moved.rows) == (Tier.COLD, 9)
    assert await remove_loose_files(database, storage, run) == 4
    [archive] = keys(tmp_path)
    with tarfile.open(tmp_path / "storage" / archive) as packed:
        names = packed.getnames()
    assert names[0] == "MANIFEST.json"
    assert before < {*names[1:]}
    with pytest.raises(NotReady) as refused:
        await everything(database, storage, run)
    assert (refused.value.code, str(run) in refused.value.cure) == ("run_archived", True)
    async with database.transaction() as session:
        await tiers.want(session, run, Tier.WARM, by="me")
    with pytest.raises(NotReady) as refused:
        await everything(database, storage, run)
    assert refused.value.code == "run_restoring"
    await from_cold(database, storage, run, folder=tmp_path)
    assert_equal(await everything(database, storage, run), hot)
    await to_hot(database, storage, run)
    assert_equal(await everything(database, storage, run), hot)
    assert await count(database, run) == 9


async def test_a_damaged_archive_is_refused_by_name_and_leaves_the_run_cold(
    database: Database, storage: Storage, tmp_path: Path
) -> None:
    run = await cold(database, storage, tmp_path)
    [archive] = (tmp_path / "storage" / "archives" / str(run)).iterdir()
    content = archive.read_bytes()
    archive.write_bytes(content[:200] + b"broken" + content[206:])
    for reading in (from_cold(database, storage, run, folder=tmp_path), remove_loose_files(database, storage, run)):
        with pytest.raises(Damaged) as damaged:
            await reading
        assert archive.name in damaged.value.message
    assert len(keys(tmp_path)) == 5
    archive.write_bytes(content)
    assert (await from_cold(database, storage, run, folder=tmp_path)).tier is Tier.WARM


async def test_an_archive_that_lacks_a_file_is_not_unpacked(
    database: Database, storage: Storage, tmp_path: Path
) -> None:
    """A wrong archive whose hash is right, which only the rows that name its files can tell."""
    run = await cold(database, storage, tmp_path)
    async with database.transaction() as session:
        tier = await tiers.get(session, run)
        assert tier is not None
        short = tmp_path / "short.tar.xz"
        with (
            tarfile.open(await storage.open(tier.archive_key or "", tier.archive_sha256 or "")) as whole,
            tarfile.open(short, "w:xz") as target,
        ):
            for member in whole.getmembers()[:-1]:
                target.addfile(member, whole.extractfile(member))
        stored = storage.put(f"archives/{run}/short.tar.xz", short)
        await tiers.write(session, run, {"archive_key": stored.key, "archive_sha256": stored.sha256})
    with pytest.raises(Damaged) as damaged:
        await from_cold(database, storage, run, folder=tmp_path)
    assert stored.key in damaged.value.message


async def test_a_run_whose_answers_another_reads_is_archived_only_after_that_one(
    database: Database, storage: Storage, tmp_path: Path
) -> None:
    source = (await answered(database, storage, tmp_path)).run.id
    child = await reusing(database, source, phase=True, ordinals={})
    hot = await everything(database, storage, child)
    for run in (source, child):
        await to_warm(database, storage, run, folder=tmp_path)
    with pytest.raises(Conflict) as refused:
        await to_cold(database, storage, source, folder=tmp_path)
    assert refused.value.code == "run_referenced"
    await to_cold(database, storage, child, folder=tmp_path)
    await to_cold(database, storage, source, folder=tmp_path)
    for run in (source, child):
        await from_cold(database, storage, run, folder=tmp_path)
    assert_equal(await everything(database, storage, child), hot)


async def test_the_policy_archives_old_runs_and_a_user_brings_them_back(
    fresh_database: Database, storage: Storage, tmp_path: Path
) -> None:
    runs = [(await answered(fresh_database, storage, tmp_path)).run.id for _ in range(2)]
    still_open = (await answered(fresh_database, storage, tmp_path, is_finished=False)).run.id
    hot = [await everything(fresh_database, storage, run) for run in runs]
    assert await move_due(fresh_database, storage, NEVER, folder=tmp_path) == []
    moves = [await move_due(fresh_database, storage, AT_ONCE, folder=tmp_path) for _ in range(3)]
    assert [[move.tier for move in moved] for moved in moves] == [[Tier.WARM] * 2, [Tier.COLD] * 2, []]
    assert await remove_loose(fresh_database, storage, NEVER) == 0  # readers may hold them for a day
    assert await remove_loose(fresh_database, storage, AT_ONCE) == 8
    assert await count(fresh_database, still_open) == 9
    async with fresh_database.transaction() as session:
        for run in runs:
            await tiers.want(session, run, Tier.HOT, by="me")
    while await move_due(fresh_database, storage, AT_ONCE, folder=tmp_path):
        async with fresh_database.transaction() as session:
            states = await tiers.listed(session, run_ids=runs)
        if all(state.tier is Tier.HOT for state in states):
            break
    for run, before in zip(runs, hot, strict=True):
        assert_equal(await everything(fresh_database, storage, run), before)


async def test_a_move_that_fails_is_on_record_and_does_not_stop_the_others(
    fresh_database: Database, storage: Storage, tmp_path: Path
) -> None:
    broken, whole = [(await answered(fresh_database, storage, tmp_path)).run.id for _ in range(2)]
    for run in (broken, whole):
        await to_warm(fresh_database, storage, run, folder=tmp_path)
    [file] = (tmp_path / "storage" / "runs" / str(broken) / "facts").iterdir()
    file.write_bytes(b"no parquet")
    moved = await move_due(fresh_database, storage, AT_ONCE, folder=tmp_path)
    assert [move.run_id for move in moved] == [whole]
    assert await move_due(fresh_database, storage, AT_ONCE, folder=tmp_path) == []  # tried again after an hour
    async with fresh_database.transaction() as session:
        [state] = await tiers.listed(session, run_ids=[broken])
    assert state.tier is Tier.WARM
    assert file.name in (state.error or "")


async def test_a_backup_has_the_files_of_runs_of_every_tier(
    fresh_database: Database, fresh_database_url: str, storage: Storage, tmp_path: Path
) -> None:
    hot, warm = [(await answered(fresh_database, storage, tmp_path)).run.id for _ in range(2)]
    await to_warm(fresh_database, storage, warm, folder=tmp_path)
    archived = await cold(fresh_database, storage, tmp_path)
    await remove_loose_files(fresh_database, storage, archived)
    async with backup.snapshot(fresh_database_url) as snapshot:
        named = {reference.key for reference in snapshot.references}
    assert named == keys(tmp_path)
    assert sum(str(hot) in key for key in named) == 3


async def test_a_run_is_deleted_only_if_nothing_keeps_it(
    fresh_database: Database, storage: Storage, tmp_path: Path
) -> None:
    runs = [(await answered(fresh_database, storage, tmp_path)).run.id for _ in range(4)]
    parent, pinned, old, young = runs
    child = await reusing(fresh_database, parent, phase=True, ordinals={})
    async with fresh_database.transaction() as session:
        await tiers.pin(session, pinned, is_pinned=True, by="me")
        await tiers.pin(session, child, is_pinned=True, by="me")
        await session.execute(
            text("UPDATE run SET finished_at = now() - interval '400 days' WHERE id <> :young"), {"young": young}
        )
        await add_run(session, name="open")
    await cold_of(fresh_database, storage, old, tmp_path)
    policy = TierPolicy(delete_after_days=365, grace_s=0)
    assert await delete_due(fresh_database, storage, TierPolicy()) == []
    assert [run.id for run in await delete_due(fresh_database, storage, policy)] == [old]
    assert not any(str(old) in key for key in keys(tmp_path))
    assert (await everything(fresh_database, storage, child)).facts.height == 9
    assert [await count(fresh_database, run) for run in (parent, pinned, young)] == [9, 9, 9]
    async with fresh_database.transaction() as session:
        await tiers.pin(session, child, is_pinned=False, by="me")
    assert {run.id for run in await delete_due(fresh_database, storage, policy)} == {child}
    assert {run.id for run in await delete_due(fresh_database, storage, policy)} == {parent}


async def cold_of(database: Database, storage: Storage, run: UUID, folder: Path) -> None:
    await to_warm(database, storage, run, folder=folder)
    await to_cold(database, storage, run, folder=folder)


async def test_only_old_files_without_an_owner_are_swept(database: Database, storage: Storage, tmp_path: Path) -> None:
    run = (await answered(database, storage, tmp_path)).run.id
    await to_warm(database, storage, run, folder=tmp_path)
    hot = await everything(database, storage, run)
    lost = storage.put(f"runs/{run}/chunks/lost/1-0.parquet", b"lost")
    storage.put("images/shared", b"an image that no run names now")
    young = TierPolicy(grace_s=(datetime.now(UTC).timestamp()))
    assert await orphans(database, storage, young) == []
    assert [orphan.key for orphan in await delete_orphans(database, storage, AT_ONCE)] == [lost.key]
    assert "images/shared" in keys(tmp_path)
    assert_equal(await everything(database, storage, run), hot)
