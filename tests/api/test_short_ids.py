"""Ids by their first digits, wherever a route takes one."""

from __future__ import annotations

import httpx2
import pytest
from sqlalchemy import text

from tests.api.conftest import Served
from tests.support.processes import PATIENCE_S

pytestmark = pytest.mark.anyio

SHARED = "abcd"


async def _run(api: Served, run_id: str, name: str = "run") -> str:
    """Submit a run and give it the id that the test needs."""
    made = (await api.http.post("/runs", json={"run": "simulated-instant", "name": name})).json()["id"]
    async with api.database.transaction() as session:
        await session.execute(text("DELETE FROM event WHERE stream_id = :id"), {"id": made})
        await session.execute(text("DELETE FROM job WHERE run_id = :id"), {"id": made})
        await session.execute(text("DELETE FROM run_listing WHERE run_id = :id"), {"id": made})
        await session.execute(text("UPDATE run SET id = :new WHERE id = :id"), {"id": made, "new": run_id})
    return run_id


async def test_the_first_digits_stand_for_a_run_wherever_one_is_named(api: Served) -> None:
    run = await _run(api, "12340000-0000-4000-8000-000000000001", "mine")
    assert (await api.http.get("/runs/1234")).json()["id"] == run
    assert (await api.http.get("/runs/12340000-00")).json()["id"] == run
    assert (await api.http.get("/ids/1234")).json() == {"kind": "run", "id": run, "name": "mine"}
    assert (await api.http.get("/results", params={"run_id": "1234"})).json()["items"] == []
    assert (await api.http.get("/artifacts", params={"run_id": "1234"})).json()["items"] == []
    assert (await api.http.get("/reports/1234")).json()["code"] == "no_report"
    assert (await api.http.post("/runs/1234/pause")).json()["is_paused"] is True
    assert (await api.http.post("/runs/1234/cancel")).json()["id"] == run
    assert (await api.http.post("/runs/1234/rerun", json={})).json()["code"] == "run_open"


async def test_an_experiment_is_found_by_its_first_digits(api: Served) -> None:
    made = (await api.http.post("/experiments", json={"experiment": "demo"})).json()
    prefix = made["id"][:13]
    assert (await api.http.get(f"/experiments/{prefix}")).json()["id"] == made["id"]
    assert (await api.http.get(f"/ids/{prefix}")).json()["kind"] == "experiment"
    runs = (await api.http.get("/runs", params={"experiment_id": prefix})).json()["items"]
    assert {run["id"] for run in runs} == {run["id"] for run in made["runs"]}


async def test_digits_of_several_ids_are_refused_with_the_candidates(api: Served) -> None:
    both = [await _run(api, f"{SHARED}000{n}-0000-4000-8000-000000000000", f"run {n}") for n in (1, 2)]
    for path in (f"/runs/{SHARED}", f"/ids/{SHARED}", f"/reports/{SHARED}"):
        answer = await api.http.get(path)
        assert (answer.status_code, answer.json()["code"]) == (422, "ambiguous_id")
        assert all(run in answer.json()["message"] for run in both)
        assert answer.json()["cure"]
    assert (await api.http.get(f"/runs/{SHARED}0001")).json()["id"] == both[0]


async def test_ids_of_another_project_are_not_candidates(api: Served) -> None:
    run = await _run(api, "77770000-0000-4000-8000-000000000001")
    stranger = {"X-API-Key": await api.add_key(project="other")}
    assert (await api.http.get("/runs/7777", headers=stranger)).status_code == 404
    assert (await api.http.get("/ids/7777", headers=stranger)).status_code == 404
    assert (await api.http.get("/runs/7777", headers={"X-API-Key": "wrong"})).status_code == 401
    assert (await api.http.get("/runs/7777")).json()["id"] == run


async def test_a_browser_that_is_signed_in_reads_a_run_by_its_first_digits(api: Served) -> None:
    run = await _run(api, "56780000-0000-4000-8000-000000000001")
    cookie = {"Cookie": await api.ending_session(seconds=3600)}
    url = f"{api.url}/api/v1/runs/5678"
    async with httpx2.AsyncClient(trust_env=False, timeout=PATIENCE_S) as browser:
        assert (await browser.get(url, headers=cookie)).json()["id"] == run
        assert (await browser.get(url)).status_code == 401


@pytest.mark.parametrize("given", ["123", "nonsense", "%00abcd", "abcd%0a", "a" * 40])
async def test_a_text_that_is_not_an_id_is_refused_with_a_cure(api: Served, given: str) -> None:
    answer = await api.http.get(f"/runs/{given}")
    assert answer.status_code == 422
    assert answer.json()["cure"]
