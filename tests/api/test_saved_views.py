"""Saved views: each person's own filters of a page."""

from __future__ import annotations

import secrets

import pytest

from tests.api.conftest import Served
from vlmhyperbench_api.saved_views import MAX_VIEWS

pytestmark = pytest.mark.anyio


@pytest.fixture
async def project(api: Served) -> str:
    name = f"p{secrets.token_hex(6)}"
    api.http.headers["X-API-Key"] = await api.add_key("run:read", project=name)
    return name


async def test_a_view_is_saved_replaced_and_removed(api: Served, project: str) -> None:
    for search in ("where=state%3DFAILED", "q=anls&order=name"):
        saved = (await api.http.put("/saved-views/runs/to do 😀", json={"search": search})).json()
        assert (saved["page"], saved["name"], saved["search"]) == ("runs", "to do 😀", search)
    await api.http.put("/saved-views/runs/another", json={"search": ""})
    listed = (await api.http.get("/saved-views/runs")).json()["items"]
    assert [(view["name"], view["search"]) for view in listed] == [("another", ""), ("to do 😀", search)]
    assert (await api.http.get("/saved-views/explore")).json()["items"] == []
    left = (await api.http.delete("/saved-views/runs/another")).json()["items"]
    assert [view["name"] for view in left] == ["to do 😀"]
    assert (await api.http.delete("/saved-views/runs/another")).status_code == 404


async def test_views_belong_to_one_person_of_one_project(api: Served, project: str) -> None:
    await api.http.put("/saved-views/runs/mine", json={"search": "q=x"})
    other = {"X-API-Key": await api.add_key("run:read", project="other")}
    assert (await api.http.get("/saved-views/runs", headers=other)).json()["items"] == []
    assert (await api.http.delete("/saved-views/runs/mine", headers=other)).status_code == 404


async def test_a_page_has_a_bounded_number_of_views_with_visible_names(api: Served, project: str) -> None:
    for no in range(MAX_VIEWS):
        assert (await api.http.put(f"/saved-views/runs/{no}", json={"search": ""})).status_code == 200
    beyond = await api.http.put("/saved-views/runs/more", json={"search": ""})
    assert (beyond.status_code, beyond.json()["code"]) == (422, "too_many_views")
    assert len((await api.http.get("/saved-views/runs")).json()["items"]) == MAX_VIEWS
    for address, search in (("runs/a%E2%80%AEb", ""), ("Runs/a", ""), ("runs/a", "?q=1"), ("runs/a", "q=\u0007")):
        assert (await api.http.put(f"/saved-views/{address}", json={"search": search})).status_code == 422
