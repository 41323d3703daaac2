"""Real workers whose machine is not as it should be: a wrong password, no database, a clock that is off."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from sqlalchemy.engine import make_url

from tests.shared.domain.builders_of_jobs import run_spec
from tests.support.bucket import serve_bucket
from tests.support.engine_room import EngineRoom
from tests.support.needs import skip_or_fail
from tests.support.processes import EXPIRING, PATIENCE_S, Services, eventually
from vlmhyperbench.db import migrations, worker_accounts
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.schema import NEWEST, REVISIONS
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.runtime import CANNOT_START

pytestmark = pytest.mark.anyio

EVALUATION = "vlmhyperbench_eval_worker"
SAMPLES = 5
OFF_S = 300


def clock_off_by(offset_s: int) -> dict[str, str]:
    """Return the variables by which a process has another time of day, and the right monotonic clock."""
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
    if library is None:
        skip_or_fail("libfaketime is not installed: apt-get install libfaketime", "VLMHB_NEED_FAKETIME")
    return {"LD_PRELOAD": str(library), "FAKETIME": f"{offset_s:+d}", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


async def has_logged(services: Services, event: str) -> None:
    async def is_logged() -> bool:
        return f'"{event}"' in services.log()

    await eventually(is_logged, event)


async def has_held_for_a_lease(room: EngineRoom, job_id: UUID) -> None:
    """Wait until a claim is older than a lease and was renewed, which an offset of clocks must not hinder."""
    held = (
        "SELECT count(*) FROM job JOIN claim ON claim.id = job.claim_id WHERE job.id = :job AND job.done = 2 "
        "AND now() > claim.started_at + make_interval(secs => :lease) AND job.lease_until > now()"
    )

    async def is_held() -> bool:
        return await room.scalar(held, job=job_id, lease=EXPIRING["LEASE_S"]) == 1

    await eventually(is_held, "a claim that was renewed")


async def test_a_worker_whose_account_the_database_refuses_ends_and_says_so(
    tmp_path: Path, fresh_database_url: str, redis_url: str
) -> None:
    wrong = make_url(fresh_database_url).set(password="wrong-one").render_as_string(hide_password=False)
    async with Services(tmp_path, database_url=wrong, redis_url=redis_url) as services:
        worker = services.start(EVALUATION)
        assert await asyncio.to_thread(worker.wait, PATIENCE_S) == CANNOT_START
        assert "VLMHB_DATABASE_URL" in services.log()
        assert "wrong-one" not in services.log()
        assert "Traceback" not in services.log()


async def test_a_worker_whose_keys_s3_refuses_ends_before_it_registers(
    room: EngineRoom, tmp_path: Path, fresh_database_url: str, redis_url: str
) -> None:
    with serve_bucket(tmp_path / "s3") as bucket:
        bucket.put("store", {})
        access = bucket.access(secret_access_key="another-secret-key-of-nobody").revealed()
        variables = {f"VLMHB_STORAGE_S3__{name.upper()}": value for name, value in access.items()}
        async with Services(tmp_path, database_url=fresh_database_url, redis_url=redis_url) as services:
            worker = services.start(EVALUATION, variables={"VLMHB_STORAGE_URL": "s3://store/x", **variables})
            assert await asyncio.to_thread(worker.wait, PATIENCE_S) == CANNOT_START
            assert "VLMHB_STORAGE_S3__SECRET_ACCESS_KEY" in services.log()
            assert "another-secret-key-of-nobody" not in services.log()
            assert "Traceback" not in services.log()
    assert await room.scalar("SELECT count(*) FROM worker") == 0


@pytest.mark.parametrize("module", [EVALUATION, "vlmhyperbench_scheduler", "vlmhyperbench_api"])
async def test_a_service_that_is_newer_than_the_database_ends_and_says_so(
    room: EngineRoom, tmp_path: Path, fresh_database_url: str, redis_url: str, module: str
) -> None:
    before = sorted(REVISIONS)[-2]
    await asyncio.to_thread(migrations.downgrade, fresh_database_url, before)
    async with Services(tmp_path, database_url=fresh_database_url, redis_url=redis_url) as services:
        service = services.start(module)
        assert await asyncio.to_thread(service.wait, PATIENCE_S) == CANNOT_START
        assert f"is {before}, older than the {NEWEST} of this version" in services.log()
        assert "Traceback" not in services.log()
    assert await room.scalar("SELECT count(*) FROM worker") == 0


@pytest.mark.parametrize("module", ["vlmhyperbench_scheduler", "vlmhyperbench_api"])
async def test_a_service_that_is_older_than_the_database_ends_and_says_so(
    room: EngineRoom, tmp_path: Path, fresh_database_url: str, redis_url: str, module: str
) -> None:
    await room.execute("UPDATE alembic_version SET version_num = '9999'")
    async with Services(tmp_path, database_url=fresh_database_url, redis_url=redis_url) as services:
        service = services.start(module)
        assert await asyncio.to_thread(service.wait, PATIENCE_S) == CANNOT_START
        assert f"is 9999, newer than the {NEWEST} of this version" in services.log()
        assert "Traceback" not in services.log()


async def test_a_worker_that_is_older_than_the_database_says_so_and_works(
    room: EngineRoom, tmp_path: Path, fresh_database_url: str, redis_url: str
) -> None:
    async with Services(tmp_path, database_url=fresh_database_url, redis_url=redis_url) as services:
        await room.execute("UPDATE alembic_version SET version_num = '9999'")
        services.start(EVALUATION)
        await has_logged(services, "worker.registered")
        assert '"database.schema_is_newer"' in services.log()


async def test_a_reporting_worker_whose_account_may_move_no_data_says_so_and_works(
    room: EngineRoom, tmp_path: Path, fresh_database_url: str, redis_url: str
) -> None:
    account = make_url(fresh_database_url).set(username=f"tiers_{uuid4().hex[:8]}", password="two")
    url = account.render_as_string(hide_password=False)
    await asyncio.to_thread(worker_accounts.prepare, fresh_database_url, url)
    try:
        async with Services(tmp_path, database_url=url, redis_url=redis_url) as services:
            services.start("vlmhyperbench_reporter")
            await has_logged(services, "worker.registered")
            await has_logged(services, "tiers.not_allowed")
    finally:
        async with room.database.transaction() as session:
            await worker_accounts.remove(session, str(account.username))


def test_the_revisions_that_services_know_are_those_of_the_migrations() -> None:
    assert migrations.known() == REVISIONS


async def test_a_worker_that_waits_for_its_database_can_be_stopped(tmp_path: Path, redis_url: str) -> None:
    nobody = "postgresql+psycopg://a:b@127.0.0.1:1/c"
    async with Services(tmp_path, database_url=nobody, redis_url=redis_url) as services:
        worker = services.start(EVALUATION)
        await has_logged(services, "worker.waits_for_database")
        worker.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(worker.wait, PATIENCE_S) == 0
        assert "Traceback" not in services.log()
    assert not list((tmp_path / "locks" / "workers").iterdir())


@pytest.mark.parametrize("offset_s", [-OFF_S, OFF_S])
async def test_a_worker_whose_clock_is_off_says_so_and_loses_no_lease_by_it(
    tmp_path: Path, fresh_database: Database, fresh_database_url: str, redis_url: str, offset_s: int
) -> None:
    room = EngineRoom(fresh_database)
    run, [shard] = await room.shards(run_spec(metrics=(), reports=()), samples=SAMPLES)
    (tmp_path / "off").mkdir()
    (tmp_path / "right").mkdir()
    async with (
        Services(
            tmp_path / "off",
            database_url=fresh_database_url,
            redis_url=redis_url,
            timers=EXPIRING,
            environment=clock_off_by(offset_s),
        ) as off,
        Services(tmp_path / "right", database_url=fresh_database_url, redis_url=redis_url, timers=EXPIRING) as right,
    ):
        right.scheduler()
        first = off.worker("stubborn", name="first")
        await has_logged(off, "worker.clock_differs")
        await has_held_for_a_lease(room, shard.id)
        first.kill()
        off.worker("finish", name="second")

        async def has_succeeded() -> bool:
            return (await room.run(run.id)).state is RunState.SUCCEEDED

        await eventually(has_succeeded, "the run succeeds")
    names = "SELECT array_agg(name ORDER BY started_at) FROM claim JOIN worker ON worker.id = worker_id"
    assert await room.scalar(f"{names} WHERE job_id = :job", job=shard.id) == ["first", "second"]
    ordinals = "SELECT array_agg(ordinal ORDER BY ordinal) FROM fact WHERE run_id = :run"
    assert await room.scalar(ordinals, run=run.id) == list(range(SAMPLES))
