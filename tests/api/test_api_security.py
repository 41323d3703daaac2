from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from fastapi import APIRouter, Depends
from sqlalchemy import text
from starlette.routing import Route

from tests.api.conftest import Served
from vlmhyperbench.db import api_keys
from vlmhyperbench.domain.api_keys import prefix_of
from vlmhyperbench_api.openapi import description
from vlmhyperbench_api.security import PUBLIC, Policy, check_policies, requires

pytestmark = pytest.mark.anyio
NOWHERE = "00000000-0000-4000-8000-000000000000"


async def test_every_route_except_health_requires_a_key(api: Served) -> None:
    import json

    api.http.headers.pop("X-API-Key")
    for path, operations in json.loads(description())["paths"].items():
        for method in operations:
            address = path.removeprefix("/api/v1")
            for name in ("run_id", "experiment_id", "artifact_id", "scope_id"):
                address = address.replace("{" + name + "}", NOWHERE)
            address = address.replace("{kind}", "runs").replace("{name}", "x")
            url = address if path.startswith("/api/v1") else api.http.base_url.join(path)
            answer = await api.http.request(method.upper(), url)
            # Joining has a token of its own, which is part of its body.
            public = {"/health": {200}, "/ready": {200, 503}, "/workers/join": {422}}
            expected = public.get(path.removeprefix("/api/v1"), {401})
            assert answer.status_code in expected, (method, path, answer.text)


@pytest.mark.parametrize("key", ["", "nonsense", "a_b", "test1234_" + "x" * 43, "test1234_" + "x" * 500])
async def test_an_invalid_key_is_refused_with_a_problem(api: Served, key: str) -> None:
    answer = await api.http.get("/runs", headers={"X-API-Key": key})
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "unauthorised"
    assert answer.json()["cure"]


async def test_the_right_prefix_with_a_wrong_secret_is_refused(api: Served) -> None:
    answer = await api.http.get("/runs", headers={"X-API-Key": f"{prefix_of(api.key)}_{'x' * 43}"})
    assert answer.status_code == 401


async def test_a_revoked_key_is_refused_at_the_next_request(api: Served) -> None:
    key = await api.add_key()
    assert (await api.http.get("/runs", headers={"X-API-Key": key})).status_code == 200
    async with api.database.transaction() as session:
        await api_keys.revoke(session, prefix_of(key) or "", project_id="default", by="tester")
    assert (await api.http.get("/runs", headers={"X-API-Key": key})).status_code == 401


async def test_an_expired_key_is_refused(api: Served) -> None:
    key = await api.add_key(expires=datetime.now(UTC) - timedelta(seconds=1))
    assert (await api.http.get("/runs", headers={"X-API-Key": key})).status_code == 401


async def test_a_key_without_the_scope_is_forbidden(api: Served) -> None:
    key = await api.add_key("run:read")
    assert (await api.http.get("/runs", headers={"X-API-Key": key})).status_code == 200
    answer = await api.http.post("/runs", json={"run": "simulated-instant"}, headers={"X-API-Key": key})
    assert answer.status_code == 403
    assert "run:write" in answer.json()["message"]


async def test_a_run_of_another_project_is_not_found(api: Served) -> None:
    created = (await api.http.post("/runs", json={"run": "simulated-instant"})).json()
    other = await api.add_key(project="other")
    theirs = await api.http.get(f"/runs/{created['id']}", headers={"X-API-Key": other})
    nobodys = await api.http.get(f"/runs/{NOWHERE}", headers={"X-API-Key": other})
    assert (
        (theirs.status_code, theirs.json()["code"])
        == (nobodys.status_code, nobodys.json()["code"])
        == (404, "not_found")
    )
    assert (await api.http.post(f"/runs/{created['id']}/cancel", headers={"X-API-Key": other})).status_code == 404


async def test_the_secret_of_a_key_is_not_in_the_database(api: Served) -> None:
    async with api.database.transaction() as session:
        rows = (await session.execute(text("SELECT row_to_json(api_key)::text FROM api_key"))).scalars().all()
    secret = api.key.partition("_")[2]
    assert rows
    assert not any(secret in row for row in rows)


def test_a_route_without_a_policy_stops_the_application() -> None:
    router = APIRouter()

    @router.get("/open")
    async def forgotten() -> None: ...

    with pytest.raises(RuntimeError, match="/open"):
        check_policies([router])


def test_a_route_that_cannot_declare_a_policy_stops_the_application() -> None:
    router = APIRouter()
    router.routes.append(Route("/raw", lambda _: None))
    with pytest.raises(RuntimeError, match="/raw"):
        check_policies([router])


def test_policies_are_found_in_every_form_of_declaration() -> None:
    router = APIRouter()

    @router.get("/public", dependencies=[PUBLIC])
    async def public() -> None: ...

    @router.get("/private")
    async def private(_: object = requires("run:read")) -> None: ...

    @router.get("/nested")
    async def nested(_: object = Depends(_needs_a_reader)) -> None: ...

    check_policies([router])


async def _needs_a_reader(_: object = requires("run:read")) -> None: ...


def test_a_policy_names_a_scope_that_exists() -> None:
    with pytest.raises(ValueError, match="run:everything"):
        Policy("run:everything")
