"""Join tokens: made, listed, revoked, and exchanged for the settings of a worker; what is wrong has one answer each."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from tests.api.conftest import PEPPER, Served, serving
from tests.support.wording import Wording
from vlmhyperbench.client import Client
from vlmhyperbench.db.engine import Database
from vlmhyperbench.errors import InvalidInput, Unavailable
from vlmhyperbench.local.certificates import Certificates
from vlmhyperbench.settings import Settings
from vlmhyperbench_api.attempts import MAX_FAILURES
from vlmhyperbench_api.main import check_certificate

pytestmark = pytest.mark.anyio


async def make(api: Served, **choices: object) -> dict[str, Any]:
    response = await api.http.post("/join-tokens", json=choices)
    assert response.status_code == 201, response.text
    body: dict[str, Any] = response.json()
    return body


async def join(api: Served, token: str, **changed: object) -> Any:
    body = {
        "token": token,
        "kind": "inference",
        "name": "other",
        "host": "other-machine",
        "version": version("vlmhyperbench"),
        "at": datetime.now(UTC).isoformat(),
    }
    return await api.http.post("/workers/join", json=body | changed, headers={"X-API-Key": ""})


async def state_of(api: Served, prefix: str) -> dict[str, Any]:
    items = (await api.http.get("/join-tokens")).json()["items"]
    (found,) = [item for item in items if item["prefix"] == prefix]
    return dict(found)


async def test_a_token_is_exchanged_for_what_a_worker_needs_and_nothing_else(api: Served, settings: Settings) -> None:
    made = await make(api, kind="inference")
    response = await join(api, made["token"])
    assert response.status_code == 200, response.text
    given = response.json()["settings"]
    for name in ("database_url", "redis_url"):
        own, workers = urlsplit(getattr(settings, name).get_secret_value()), urlsplit(given[name])
        assert (workers.scheme, workers.path, workers.query) == (own.scheme, own.path, own.query)
        assert workers.username == made["prefix"]
        assert workers.password not in (None, own.password)
    assert given["storage_url"] == settings.storage_url
    assert given["timers"]["lease_s"] == settings.timers.lease_s
    assert PEPPER not in response.text
    assert api.key not in response.text
    assert set(given) == {
        *("database_url", "redis_url", "storage_url", "storage_s3", "run_mode", "project", "timers"),
        *("allowed_target_hosts", "allowed_adapters", "metric_memory_bytes"),
    }
    proof = response.json()["proof"]
    assert await api.storage.open(proof["key"], proof["sha256"])
    Settings.model_validate({"home": settings.home, **given})


async def test_only_a_hash_of_a_token_is_stored_and_shown(api: Served) -> None:
    made = await make(api)
    secret = made["token"].partition("_")[2]
    listed = await api.http.get("/join-tokens")
    assert secret not in listed.text
    async with api.database.transaction() as session:
        stored = (await session.execute(text("SELECT * FROM join_token"))).all()
    assert secret not in str(stored)
    assert (await state_of(api, made["prefix"]))["created_by"] == "tester-default"


async def test_a_token_lets_in_as_many_workers_as_it_says(api: Served) -> None:
    made = await make(api, max_uses=2)
    assert [(await join(api, made["token"])).status_code for _ in range(2)] == [200, 200]
    refused = await join(api, made["token"])
    assert (refused.status_code, refused.json()["code"]) == (401, "token_used")
    assert (await state_of(api, made["prefix"]))["uses"] == 2


def say(wording: Wording, answer: Any, **changing: object) -> None:
    body = answer.json()
    wording(f"{body['message']} {body['cure']}", **changing)


async def test_a_revoked_an_expired_and_another_kinds_token_each_have_their_error(
    api: Served, wording: Wording
) -> None:
    revoked, expired, other = await make(api), await make(api), await make(api, kind="reporting")
    response = await api.http.post(f"/join-tokens/{revoked['prefix']}/revoke")
    assert (response.json()["state"], response.json()["revoked_by"]) == ("revoked", "tester-default")
    async with api.database.transaction() as session:
        await session.execute(
            text("UPDATE join_token SET expires_at = now() WHERE prefix = :prefix"), {"prefix": expired["prefix"]}
        )
    answers = [await join(api, token["token"]) for token in (revoked, expired, other)]
    assert [answer.status_code for answer in answers] == [401] * 3
    assert [answer.json()["code"] for answer in answers] == ["token_revoked", "token_expired", "token_kind"]
    for answer in answers:
        say(wording, answer)


async def test_who_does_not_know_the_whole_token_learns_nothing(api: Served, wording: Wording) -> None:
    made = await make(api)
    await api.http.post(f"/join-tokens/{made['prefix']}/revoke")
    guesses = (f"{made['prefix']}_{'x' * 43}", f"vlmhbjffffffff_{secrets.token_urlsafe(32)}", "no token", api.key)
    answers = [await join(api, guess) for guess in guesses]
    assert {answer.text for answer in answers} == {answers[0].text}
    assert (answers[0].status_code, answers[0].json()["code"]) == (401, "token_wrong")
    say(wording, answers[0])


async def test_a_worker_of_another_version_is_told_both_and_its_token_stays_valid(
    api: Served, wording: Wording
) -> None:
    made = await make(api)
    refused = await join(api, made["token"], version="0.0.9")
    assert (refused.status_code, refused.json()["code"]) == (409, "version_differs")
    say(wording, refused, OWN=version("vlmhyperbench"))
    assert (await join(api, made["token"])).status_code == 200


async def test_too_many_wrong_tokens_from_one_address_are_refused_for_a_while(api: Served, wording: Wording) -> None:
    made = await make(api)
    for _ in range(MAX_FAILURES):
        assert (await join(api, "wrong")).status_code == 401
    answers = [await join(api, token) for token in ("wrong", made["token"])]
    assert [answer.status_code for answer in answers] == [429, 429]
    say(wording, answers[0])


@pytest.mark.parametrize(
    "choices", [{"expires_in_s": 0}, {"expires_in_s": 10**9}, {"max_uses": 0}, {"kind": "api"}, {"prefix": "x"}]
)
async def test_a_token_without_bounds_is_refused(api: Served, choices: dict[str, object]) -> None:
    assert (await api.http.post("/join-tokens", json=choices)).status_code == 422


async def test_a_key_without_the_scope_makes_no_token(api: Served) -> None:
    headers = {"X-API-Key": await api.add_key("worker:read")}
    assert (await api.http.post("/join-tokens", json={}, headers=headers)).status_code == 403
    assert (await api.http.get("/join-tokens", headers=headers)).status_code == 200


async def test_an_unknown_token_cannot_be_revoked(api: Served) -> None:
    assert (await api.http.post("/join-tokens/absent/revoke")).status_code == 404


@pytest.fixture
async def elsewhere(settings: Settings, database: Database) -> AsyncIterator[Served]:
    """An API whose workers have addresses of their own, and share an account."""
    urls = {
        "worker_accounts": "shared",
        "worker_database_url": SecretStr("postgresql+psycopg://worker:secret@10.0.0.1:5433/db?sslmode=verify-full"),
        "worker_redis_url": SecretStr("rediss://:secret@10.0.0.1:6380/0"),
    }
    async with serving(settings.model_copy(update=urls), database) as api:
        yield api


async def test_workers_get_the_addresses_that_are_meant_for_them(elsewhere: Served) -> None:
    given = (await join(elsewhere, (await make(elsewhere))["token"])).json()["settings"]
    assert given["database_url"].startswith("postgresql+psycopg://worker:secret@10.0.0.1:5433/")
    assert given["redis_url"].startswith("rediss://:secret@10.0.0.1:6380/")


async def test_workers_share_an_account_only_where_the_settings_say_so(elsewhere: Served, settings: Settings) -> None:
    made = await make(elsewhere)
    await join(elsewhere, made["token"])
    revoked = await elsewhere.http.post(f"/join-tokens/{made['prefix']}/revoke")
    assert (revoked.json()["state"], revoked.json()["account"]) == ("revoked", "shared")
    without = {"worker_accounts": "shared", "worker_database_url": SecretStr("postgresql+psycopg://10.0.0.1/db")}
    async with serving(settings.model_copy(update=without), elsewhere.database) as api:
        refused = await join(api, (await make(api))["token"])
        assert (refused.status_code, refused.json()["code"]) == (409, "no_shared_account")


async def test_the_api_speaks_tls_by_the_certificate_of_its_settings(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    certificates = Certificates(tmp_path / "tls")
    certificates.prepare({"127.0.0.1"})
    files = {"api_tls_cert": certificates.cert_file, "api_tls_key": certificates.key_file}
    served = settings.model_copy(update=files)
    check_certificate(served)
    async with serving(served, database) as api:
        url = api.url.replace("http://", "https://")
        made = await asyncio.to_thread(_token_over_tls, url, api.key, str(certificates.ca_file))
        assert made
        with pytest.raises(Unavailable):
            await asyncio.to_thread(_token_over_tls, url, api.key, None)


def _token_over_tls(url: str, key: str, ca_file: str | None) -> str:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("VLMHB_API_CA_FILE", ca_file or "")
        with Client(url, key) as client:
            return client.create_join_token(kind="reporting").token


def test_a_certificate_that_cannot_be_used_is_named(settings: Settings, tmp_path: Path) -> None:
    certificates, others = Certificates(tmp_path / "tls"), Certificates(tmp_path / "others")
    for made in (certificates, others):
        made.prepare({"127.0.0.1"})
    for key in (tmp_path / "absent", others.key_file, certificates.ca_file):
        with pytest.raises(InvalidInput) as refused:
            check_certificate(settings.model_copy(update={"api_tls_cert": certificates.cert_file, "api_tls_key": key}))
        assert refused.value.code == "api_certificate"
