"""API keys made and revoked through the API: never more rights than the maker's, and nothing is forgotten."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta

import httpx2
import pytest

from tests.api.conftest import Served

pytestmark = pytest.mark.anyio


@pytest.fixture
async def project(api: Served) -> str:
    """A project of this test alone, whose key the client sends."""
    name = f"p{secrets.token_hex(6)}"
    api.http.headers["X-API-Key"] = await api.add_key(project=name)
    return name


async def _create(api: Served, **changed: object) -> httpx2.Response:
    return await api.http.post("/keys", json={"name": "ci", "scopes": ["run:read"], **changed})


async def test_a_new_key_is_shown_once_and_works_within_its_scopes(api: Served, project: str) -> None:
    created = (await _create(api)).json()
    headers = {"X-API-Key": created["key"]}
    assert (await api.http.get("/runs", headers=headers)).status_code == 200
    refused = await api.http.get("/workers", headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    listed = {key["prefix"]: key for key in (await api.http.get("/keys")).json()["items"]}
    shown = listed[created["prefix"]]
    assert (shown["name"], shown["scopes"], shown["state"], shown["created_by"], shown["is_own"]) == (
        "ci", ["run:read"], "valid", f"tester-{project}", False,
    )  # fmt: skip
    assert "key" not in shown
    assert created["key"] not in str(listed)
    assert [key["is_own"] for key in listed.values()].count(True) == 1


async def test_a_revoked_key_is_refused_at_once_and_stays_on_record(api: Served, project: str) -> None:
    created = (await _create(api)).json()
    for _ in range(2):
        revoked = (await api.http.post(f"/keys/{created['prefix']}/revoke")).json()
        assert (revoked["state"], revoked["revoked_by"]) == ("revoked", f"tester-{project}")
    assert (await api.http.get("/runs", headers={"X-API-Key": created["key"]})).status_code == 401
    again = await _create(api)
    assert again.status_code == 201, "the name is free again"
    assert [key["state"] for key in (await api.http.get("/keys")).json()["items"] if key["name"] == "ci"] == [
        "valid",
        "revoked",
    ]


async def test_a_key_gives_neither_scopes_that_it_lacks_nor_a_longer_life(api: Served, project: str) -> None:
    end = datetime.now(UTC) + timedelta(hours=1)
    poor = {"X-API-Key": await api.add_key("key:write", "run:read", project=project, expires=end)}
    beyond = await api.http.post("/keys", json={"name": "x", "scopes": ["run:read", "*"]}, headers=poor)
    assert (beyond.status_code, beyond.json()["code"]) == (403, "forbidden")
    for name, life in (("short", 600), ("long", 7200), ("endless", None)):
        body = {"name": name, "scopes": ["run:read"], "expires_in_s": life}
        made = (await api.http.post("/keys", json=body, headers=poor)).json()
        assert (datetime.fromisoformat(made["expires_at"]) < end) is (name == "short")
        assert datetime.fromisoformat(made["expires_at"]) <= end


REFUSED: list[tuple[dict[str, object], int, str]] = [
    ({"name": ""}, 422, "invalid_input"),
    ({"name": "a\u202eb"}, 422, "invalid_input"),
    ({"scopes": []}, 422, "invalid_input"),
    ({"scopes": ["run:reed"]}, 422, "invalid_input"),
    ({"expires_in_s": 0}, 422, "invalid_input"),
    ({"name": "tester-{project}"}, 409, "name_taken"),
]


async def test_wrong_keys_are_refused_with_a_cure(api: Served, project: str) -> None:
    for changed, status, code in REFUSED:
        body = {
            key: value.format(project=project) if isinstance(value, str) else value for key, value in changed.items()
        }
        response = await _create(api, **body)
        problem = response.json()
        assert (changed, response.status_code, problem["code"]) == (changed, status, code)
        assert problem["cure"]


async def test_neither_the_own_key_nor_one_of_another_project_is_revoked(api: Served, project: str) -> None:
    own = next(key for key in (await api.http.get("/keys")).json()["items"] if key["is_own"])
    response = await api.http.post(f"/keys/{own['prefix']}/revoke")
    assert (response.status_code, response.json()["code"]) == (409, "key_in_use")
    created = (await _create(api)).json()
    other = {"X-API-Key": await api.add_key(project="other")}
    assert (await api.http.post(f"/keys/{created['prefix']}/revoke", headers=other)).status_code == 404
    assert created["prefix"] not in (await api.http.get("/keys", headers=other)).text


async def test_only_keys_with_the_scopes_read_and_make_keys(api: Served, project: str) -> None:
    reader = {"X-API-Key": await api.add_key("key:read", project=project)}
    assert (await api.http.get("/keys", headers=reader)).status_code == 200
    assert (await api.http.post("/keys", json={"name": "x", "scopes": ["key:read"]}, headers=reader)).status_code == 403
    stranger = {"X-API-Key": await api.add_key("run:read", project=project)}
    assert (await api.http.get("/keys", headers=stranger)).status_code == 403
