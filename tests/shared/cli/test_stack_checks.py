"""What `doctor` says of a stack: that it answers, that it may make accounts, that a worker's account has ended."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy.engine import make_url

from tests.support.bucket import SECRET, serve_bucket
from vlmhyperbench.accounts import redis_users
from vlmhyperbench.addresses import with_account
from vlmhyperbench.cli.checks import stack_checks
from vlmhyperbench.db import worker_accounts
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.checks import Check


@pytest.fixture
def settings(tmp_path: Path, fresh_database_url: str, redis_url: str) -> Settings:
    return Settings(home=tmp_path, database_url=SecretStr(fresh_database_url), redis_url=SecretStr(redis_url))


def checked(settings: Settings, **changed: object) -> list[Check]:
    return list(stack_checks(settings.model_copy(update=changed), Home(settings.home)))


def test_a_stack_that_answers_and_may_make_accounts_is_fine(settings: Settings) -> None:
    names = ["database", "Redis", "storage", "clock", "accounts"]
    assert [(check.name, check.is_ok) for check in checked(settings)] == [(name, True) for name in names]
    assert all(check.is_ok for check in checked(settings, worker_accounts="shared"))
    assert not checked(settings, database_url=SecretStr(""))


def test_the_bucket_of_a_stack_that_is_not_there_yet_is_checked(settings: Settings, tmp_path: Path) -> None:
    with serve_bucket(tmp_path / "s3") as bucket:
        bucket.put("store", {})
        for secret, is_ok in ((SECRET, True), ("another-secret-key-of-nobody", False)):
            changed = {"storage_url": "s3://store/x", "storage_s3": bucket.access(secret_access_key=secret)}
            [check] = checked(settings, database_url=SecretStr(""), **changed)
            assert (check.name, check.is_ok, "SECRET_ACCESS_KEY" in check.cure) == ("storage", is_ok, not is_ok)


def test_a_replica_that_is_none_is_named(settings: Settings) -> None:
    *answers, replica = checked(settings, database_replica_url=settings.database_url)
    assert all(check.is_ok for check in answers)
    assert (replica.name, replica.is_ok, "VLMHB_DATABASE_REPLICA_URL" in replica.cure) == ("replica", False, True)


def test_an_account_that_may_make_no_others_is_named_with_what_to_grant(settings: Settings, redis_url: str) -> None:
    own, name = settings.database_url.get_secret_value(), f"poor_{uuid4().hex[:8]}"
    worker_accounts.prepare(own, with_account(own, name, "secret"))
    asyncio.run(redis_users.make(redis_url, name, _SHA256_OF_SECRET, None))
    for setting, url, grant in (("database_url", own, "CREATEROLE"), ("redis_url", redis_url, "+acl")):
        account = {setting: SecretStr(with_account(url, name, "secret"))}
        *answers, accounts = checked(settings, **account)
        assert (all(check.is_ok for check in answers), accounts.is_ok, grant in accounts.cure) == (True, False, True)
        assert all(check.is_ok for check in checked(settings, **account, server_url="https://server"))
    asyncio.run(redis_users.remove(redis_url, name))
    refused, *_ = checked(
        settings, database_url=SecretStr(with_account(own, name, "wrong")), server_url="https://server"
    )
    assert (refused.is_ok, "token create" in refused.cure) == (False, True)
    _drop(own, name)


_SHA256_OF_SECRET = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"


def _drop(url: str, name: str) -> None:
    with psycopg.connect(make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)) as own:
        own.execute(f'DROP OWNED BY "{name}"'.encode())
        own.execute(f'DROP ROLE "{name}"'.encode())
