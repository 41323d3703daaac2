"""The accounts of a worker that has joined: what they permit, and that revoking the token ends them at once."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import redis
from sqlalchemy.engine import make_url

from tests.api.conftest import Served, serving
from tests.api.test_joining import join, make, state_of
from tests.support.processes import eventually
from tests.support.wording import Wording
from vlmhyperbench.accounts import redis_users
from vlmhyperbench.accounts.keeping import repair
from vlmhyperbench.addresses import with_account
from vlmhyperbench.bus import Bus, DoneSample, SamplesDone, detail_channel
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.refusals import is_refused
from vlmhyperbench.errors import Denied
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.reachability import check_reachable

pytestmark = pytest.mark.anyio


async def joined(api: Served, **choices: object) -> tuple[str, dict[str, Any]]:
    """Let a worker join; return the prefix of its token and its settings."""
    made = await make(api, **choices)
    response = await join(api, made["token"])
    assert response.status_code == 200, response.text
    return made["prefix"], response.json()["settings"]


def plain(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


async def test_a_worker_reads_jobs_and_no_secret(api: Served) -> None:
    _, given = await joined(api)
    with psycopg.connect(plain(given["database_url"]), autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM job").fetchone() is not None
        for refused in (
            *("SELECT * FROM api_key", "SELECT * FROM join_token", "DELETE FROM fact", "UPDATE fact SET phase = 1"),
            *("DROP TABLE job", "CREATE ROLE x", "CREATE TABLE x (y int)", "UPDATE drain SET reason = 'x'"),
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(refused.encode())


async def test_a_worker_says_in_redis_what_it_must_and_nothing_else(api: Served) -> None:
    _, given = await joined(api, kind="inference")
    with redis.Redis.from_url(given["redis_url"]) as client:
        client.lpush("vlmhb:scheduler.wake", "1")
        client.brpop(["vlmhb:queue:worker.inference.other"], timeout=0.01)
        for refused in (
            lambda: client.brpop(["vlmhb:queue:worker.reporting.other"], timeout=0.01),
            lambda: client.get("vlmhb:taken:ticket"),
            lambda: client.publish("other", "x"),
            lambda: client.acl_list(),
            lambda: client.flushall(),
            lambda: client.config_get(),
        ):
            with pytest.raises(redis.exceptions.NoPermissionError):
                refused()
    bus = Bus(given["redis_url"])
    assert await bus.is_up()
    await bus.close()


async def test_a_worker_knows_who_listens_to_a_run_and_sends_its_details(api: Served, redis_url: str) -> None:
    _, given = await joined(api, max_uses=2)
    run_id, theirs, platform = uuid4(), Bus(given["redis_url"]), Bus(redis_url)
    channels = frozenset({detail_channel(run_id, "samples")})
    sample = DoneSample(key="k", phase=1, ordinal=0, status="ok")

    async def hear() -> SamplesDone:
        async for message in platform.subscribe(lambda: channels):
            if isinstance(message, SamplesDone):
                return message
        raise AssertionError("The subscription has ended.")

    async def is_heard() -> bool:
        return await theirs.listeners(run_id) == {"samples": 1}

    async with asyncio.TaskGroup() as group:
        hearing = group.create_task(hear())
        await eventually(is_heard, "somebody listens")
        await theirs.publish_detail(SamplesDone(run_id=run_id, samples=[sample]))
    assert hearing.result().samples == [sample]
    await theirs.close()
    await platform.close()


async def test_revoking_a_token_ends_the_access_of_those_who_have_joined(
    api: Served, settings: Settings, wording: Wording
) -> None:
    prefix, given = await joined(api, max_uses=2)
    joined_server = {"server_url": "https://127.0.0.1:1"}  # as `worker --server` stores it
    own = Settings.model_validate({"home": settings.home / "worker", **joined_server, **given})
    await check_reachable(own)
    assert not is_refused(given["database_url"])
    connection = psycopg.connect(plain(given["database_url"]), autocommit=True)
    client = redis.Redis.from_url(given["redis_url"], retry=None)
    client.ping()
    assert (await state_of(api, prefix))["account"] == "own"
    revoked = (await api.http.post(f"/join-tokens/{prefix}/revoke")).json()
    assert (revoked["state"], revoked["account"]) == ("revoked", "ended")
    with pytest.raises(psycopg.errors.AdminShutdown):
        connection.execute("SELECT 1")
    with pytest.raises(redis.exceptions.RedisError):
        client.ping()
    with pytest.raises(redis.exceptions.AuthenticationError):
        client.ping()
    assert is_refused(given["database_url"])
    with pytest.raises(Denied) as refused:
        await check_reachable(own)
    assert refused.value.code == "account_refused"
    wording(str(refused.value), ACCOUNT=prefix)
    # A second time changes nothing.
    again = (await api.http.post(f"/join-tokens/{prefix}/revoke")).json()
    assert again == revoked


async def test_what_redis_has_lost_is_made_anew_and_what_a_crash_has_left_is_ended(
    api: Served, settings: Settings
) -> None:
    url = settings.redis_url.get_secret_value()
    kept, given = await joined(api)
    left, _ = await joined(api)
    await redis_users.remove(url, kept)
    async with api.database.transaction() as session:
        from vlmhyperbench.db import join_tokens

        await join_tokens.revoke(session, left, revoked_by="tester")
    await repair(api.database, redis_url=url)
    with redis.Redis.from_url(given["redis_url"]) as client:
        assert client.ping()
    assert left not in await redis_users.users(url)
    assert (await state_of(api, left))["account"] == "ended"


async def test_where_no_account_may_be_made_joining_says_what_to_grant_and_the_token_stays_valid(
    settings: Settings, database: Database, postgres_server: Any, database_url: str, redis_url: str, wording: Wording
) -> None:
    async with serving(settings, database) as owner:
        poor, given = await joined(owner)  # an account that may write, but make no others
        token = await make(owner)
    with psycopg.connect(plain(database_url), autocommit=True) as connection:
        connection.execute(f'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "{poor}"'.encode())
    changed = settings.model_copy(update={"database_url": type(settings.database_url)(given["database_url"])})
    async with serving(changed, database) as api:
        refused = await join(api, token["token"])
        assert (refused.status_code, refused.json()["code"]) == (409, "accounts_denied")
        wording(refused.json()["message"] + " " + refused.json()["cure"])
    changed = settings.model_copy(update={"redis_url": type(settings.redis_url)(given["redis_url"])})
    async with serving(changed, database) as api:
        refused = await join(api, token["token"])
        assert (refused.status_code, refused.json()["code"]) == (409, "accounts_denied")
        wording(refused.json()["message"] + " " + refused.json()["cure"], ACCOUNT=poor)
    async with serving(settings, database) as owner:
        assert (await state_of(owner, token["prefix"]))["uses"] == 0
        assert (await join(owner, token["token"])).status_code == 200


def test_another_account_is_written_into_a_url() -> None:
    cases = {
        "redis://:old@host:1/0": "redis://new:p%40ss@host:1/0",
        "postgresql+psycopg://a:b@/db?host=/run/x": "postgresql+psycopg://new:p%40ss@/db?host=/run/x",
        "rediss://[::1]:6/0?x=y": "rediss://new:p%40ss@[::1]:6/0?x=y",
    }
    assert [with_account(url, "new", "p@ss") for url in cases] == list(cases.values())
