"""Runs as a query: filters, orders, pages, labels, small rows and conditional requests."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import update

from tests.api.conftest import Served
from tests.support.builders import add_run, run_spec
from vlmhyperbench.client import AsyncClient
from vlmhyperbench.db import listings
from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import RunRow

pytestmark = pytest.mark.anyio

RUN = table_of(RunRow)


@pytest.fixture
async def project(api: Served) -> str:
    """A project of this test alone, whose key the client sends."""
    name = f"p{secrets.token_hex(6)}"
    api.http.headers["X-API-Key"] = await api.add_key(project=name)
    return name


async def _add(api: Served, project: str, name: str, **columns: Any) -> UUID:
    """Add a run that ended with these columns of its summary."""
    async with api.database.transaction() as session:
        run = await add_run(session, name=name, spec=run_spec(model_name=name, seed=len(name)), project_id=project)
        await session.execute(update(RUN).where(RUN.c.id == run.id).values(state="SUCCEEDED"))
        await listings.set_columns(session, run.id, columns)
    return run.id


async def _names(api: Served, **params: Any) -> list[str]:
    response = await api.http.get("/runs/rows", params=params)
    assert response.status_code == 200, response.text
    return [row["name"] for row in response.json()["items"]]


@pytest.fixture
async def three(api: Served, project: str) -> dict[str, UUID]:
    """Three runs, of which `slow` has the best score and `bare` none."""
    return {
        "fast": await _add(api, project, "fast", metric="anls", **{"metrics.anls": 0.7, "latency_p99_ms": 20.0}),
        "slow": await _add(api, project, "slow", metric="anls", **{"metrics.anls": 0.9, "latency_p99_ms": 900.0}),
        "bare": await _add(api, project, "bare"),
    }


FILTERS: list[tuple[list[str], list[str]]] = [
    (["metrics.anls>=0.8"], ["slow"]),
    (["metrics.anls<0.8", "latency_p99_ms<=20"], ["fast"]),
    (["metrics.anls=*"], ["slow", "fast"]),
    (["metrics.anls!=*"], ["bare"]),
    (["metric!=anls"], ["bare"]),
    (["model=fast,bare"], ["bare", "fast"]),
    (["name~AS"], ["fast"]),
    (["name~%"], []),
    (["state=succeeded"], ["bare", "slow", "fast"]),
    (["spec.dataset.seed=4", "spec.target.model_name=slow"], ["slow"]),
    (["spec.dataset.seed>3.5"], ["bare", "slow", "fast"]),
    (["created_at<2001-01-01"], []),
    (["is_paused=true"], []),
    (["tags=nightly"], []),
]
"""Filters with the runs that pass, newest first."""


async def test_runs_are_filtered_by_columns_of_run_spec_and_summary(api: Served, three: dict[str, UUID]) -> None:
    await _add(api, "other", "stranger", **{"metrics.anls": 1.0})
    assert [(where, await _names(api, where=where)) for where, _ in FILTERS] == FILTERS


WRONG = (
    *("metrics.anls", "metrics.anlss>0", "spec.nowhere=1"),
    *("total<many", "created_at>soon", "is_paused=yes", "name<x"),
)


async def test_a_wrong_filter_is_refused_with_its_cure(api: Served, three: dict[str, UUID]) -> None:
    for where in WRONG:
        response = await api.http.get("/runs/rows", params={"where": where})
        problem = response.json()
        assert (where, response.status_code, bool(problem["cure"])) == (where, 422, True)
        assert problem["code"] in ("bad_filter", "unknown_column")


async def test_pages_of_every_order_hold_each_run_once(api: Served, three: dict[str, UUID]) -> None:
    for order in ("-metrics.anls", "metrics.anls", "name", "-created_at", "-started_at", "duration_s", "is_paused"):
        whole = await _names(api, order=order)
        assert sorted(whole) == ["bare", "fast", "slow"]
        assert [row async for row in _paged(api, order)] == whole
    assert await _names(api, order="-metrics.anls") == ["slow", "fast", "bare"]
    assert await _names(api, order="metrics.anls") == ["fast", "slow", "bare"]


async def test_a_last_page_that_is_full_has_no_next_one(api: Served, three: dict[str, UUID]) -> None:
    assert (await api.http.get("/runs/rows", params={"limit": 3})).json()["next"] is None
    assert (await api.http.get("/runs/rows", params={"limit": 2})).json()["next"] is not None


async def test_a_list_by_duration_holds_each_run_once_while_runs_go_on(api: Served, project: str) -> None:
    now = datetime.now(UTC)
    times = {"long": (1000, 0), "open": (500, None), "short": (100, 0)}
    ids = {name: await _add(api, project, name) for name in times}

    async def set_times(name: str, *, started_s: float, ended_s: float | None) -> None:
        ended = None if ended_s is None else now + timedelta(seconds=ended_s)
        values = {"started_at": now - timedelta(seconds=started_s), "finished_at": ended}
        async with api.database.transaction() as session:
            await session.execute(update(RUN).where(RUN.c.id == ids[name]).values(values))

    for name, (started_s, ended_s) in times.items():
        await set_times(name, started_s=started_s, ended_s=ended_s)
    params = {"order": "-duration_s", "limit": 1}
    first = (await api.http.get("/runs/rows", params=params)).json()
    await set_times("open", started_s=500, ended_s=3600)
    second = (await api.http.get("/runs/rows", params={**params, "cursor": first["next"]})).json()
    third = (await api.http.get("/runs/rows", params={**params, "cursor": second["next"]})).json()
    assert [page["items"][0]["name"] for page in (first, second, third)] == ["long", "open", "short"]
    assert third["next"] is None


async def test_a_column_says_which_end_is_good(api: Served, project: str) -> None:
    await _add(api, project, "new", **{
        "metrics.omnidocbench@text": 0.1, "metrics.omnidocbench@text.low": 0.0,
        "metrics.omnidocbench@text.direction": "lower", "metrics.mixed": 1.0, "metrics.mixed.direction": "lower",
        "metrics.cer": 0.5, "metric": "cer", "metric_direction": "lower", "truncation_rate": 0.1,
    })  # fmt: skip
    await _add(api, project, "old", **{"metrics.mixed": 1.0, "metrics.mixed.direction": "higher", "metrics.none": 1.0})
    columns = (await api.http.get("/runs/columns")).json()["columns"]
    directions = {column["name"]: column["direction"] for column in columns}
    assert {name: directions[name] for name in directions if directions[name] == "lower"} == dict.fromkeys(
        ("duration_s", "metrics.omnidocbench@text", "metrics.omnidocbench@text.low", "metrics.cer", "truncation_rate"),
        "lower",
    )
    assert [directions[name] for name in ("metrics.mixed", "metrics.none", "total", "name")] == [None] * 4


async def _paged(api: Served, order: str) -> AsyncIterator[str]:
    cursor: str | None = ""
    while cursor is not None:
        page = (await api.http.get("/runs/rows", params={"order": order, "limit": 1, "cursor": cursor})).json()
        for row in page["items"]:
            yield row["name"]
        cursor = page["next"]


async def test_the_queue_is_by_priority_and_then_first_come(api: Served, project: str) -> None:
    begun = datetime(2026, 1, 2, tzinfo=UTC)
    for number, (name, priority) in enumerate((("a", 0), ("b", -100), ("c", 0), ("d", 100), ("e", 0), ("f", 100))):
        run_id = await _add(api, project, name)
        async with api.database.transaction() as session:
            at = begun + timedelta(milliseconds=number)
            await session.execute(update(RUN).where(RUN.c.id == run_id).values(priority=priority, created_at=at))
    assert await _names(api, order="queue_place") == ["d", "f", "a", "c", "e", "b"]
    assert [name async for name in _paged(api, "queue_place")] == ["d", "f", "a", "c", "e", "b"]


async def test_a_cursor_of_another_order_is_refused(api: Served, three: dict[str, UUID]) -> None:
    cursor = (await api.http.get("/runs/rows", params={"limit": 1})).json()["next"]
    response = await api.http.get("/runs/rows", params={"order": "name", "cursor": cursor})
    assert response.status_code == 422


async def test_a_row_is_small_and_has_the_primary_score(api: Served, project: str) -> None:
    columns = {"metric": "anls", "metrics.anls": 0.5, "metrics.anls.low": 0.4, "metrics.anls.high": 0.6}
    await _add(api, project, "n" * 100, metric_direction="higher", peak_memory_bytes=2**40, validity="valid", **columns)
    (row,) = (await api.http.get("/runs/rows")).json()["items"]
    assert row["score"] == {
        "metric": "anls", "value": 0.5, "low": 0.4, "high": 0.6, "n": None, "direction": "higher",
    }  # fmt: skip
    assert len(json.dumps(row, separators=(",", ":"))) <= 1024


async def test_tags_and_notes_are_changed_found_and_counted(api: Served, three: dict[str, UUID]) -> None:
    path = f"/runs/{three['fast']}/labels"
    changes = [{"add_tags": [f"t{number}"]} for number in range(5)]
    await asyncio.gather(*(api.http.patch(path, json=change) for change in changes))
    changed = (await api.http.patch(path, json={"remove_tags": ["t1"], "note": "<b>slow</b> \u05d0 \U0001f600"})).json()
    assert (changed["tags"], changed["note"]) == (["t0", "t2", "t3", "t4"], "<b>slow</b> \u05d0 \U0001f600")
    assert changed["labelled_by"].startswith("tester-p")
    assert (await api.http.get(path)).json() == changed
    assert await _names(api, where=["tags=t3"]) == ["fast"]
    assert await _names(api, q="slow \U0001f600") == ["fast"]
    columns = (await api.http.get("/runs/columns")).json()
    assert columns["tags"] == {"t0": 1, "t2": 1, "t3": 1, "t4": 1}
    assert list(columns["tasks"].values()) == [3]
    kinds = {column["name"]: (column["kind"], column["is_number"]) for column in columns["columns"]}
    assert (kinds["metrics.anls"], kinds["metric"]) == (("value", True), ("value", False))
    assert (kinds["created_at"], kinds["total"]) == (("time", False), ("number", True))


async def test_wrong_labels_are_refused(api: Served, three: dict[str, UUID]) -> None:
    tags = [{"add_tags": [tag]} for tag in ("a,b", " a", "\u202ea", "*", "t" * 41)]
    for change in ({}, *tags, {"note": "n" * 10_001}):
        assert (await api.http.patch(f"/runs/{three['fast']}/labels", json=change)).status_code == 422


async def test_labels_of_other_projects_are_not_there(api: Served) -> None:
    run_id = await _add(api, "other", "stranger")
    assert (await api.http.get(f"/runs/{run_id}/labels")).status_code == 404
    assert (await api.http.patch(f"/runs/{run_id}/labels", json={"note": "x"})).status_code == 404


async def test_an_unchanged_body_is_not_sent_again(api: Served, three: dict[str, UUID]) -> None:
    first = await api.http.get("/runs/rows", headers={"Accept-Encoding": "identity"})
    tag = first.headers["etag"]
    again = await api.http.get("/runs/rows", headers={"If-None-Match": f'"other", {tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert first.headers["cache-control"] == "private, no-cache"
    await api.http.patch(f"/runs/{three['fast']}/labels", json={"add_tags": ["new"]})
    changed = await api.http.get("/runs/rows", headers={"If-None-Match": tag})
    assert (changed.status_code, changed.headers["etag"] == tag) == (200, False)
    missing = await api.http.get("/runs/00000000-0000-0000-0000-000000000000", headers={"If-None-Match": "*"})
    assert missing.status_code == 404


async def test_a_large_body_is_compressed(api: Served, project: str) -> None:
    for number in range(5):
        await _add(api, project, f"run-{number}")
    plain = await api.http.get("/runs/rows", headers={"Accept-Encoding": "identity"})
    packed = await api.http.get("/runs/rows", headers={"Accept-Encoding": "gzip"})
    assert (packed.headers["content-encoding"], "content-encoding" in plain.headers) == ("gzip", False)
    assert int(packed.headers["content-length"]) < len(plain.content)
    assert packed.json() == plain.json()


async def test_the_client_queries_labels_and_reads_runs(api: Served, three: dict[str, UUID]) -> None:
    async with AsyncClient(api.url, api.http.headers["X-API-Key"]) as client:
        best = await client.runs.rows("metrics.anls>=0.5", "latency_p99_ms<1000", order="-metrics.anls")
        assert [row.name for row in best.items] == ["slow", "fast"]
        labels = await client.runs.label(three["slow"], add_tags=["best"], note="look here")
        assert (labels.tags, (await client.runs.labels(three["slow"])).note) == (["best"], "look here")
        assert (await client.runs.columns()).tags == {"best": 1}
        points = await client.runs.points(["metrics.anls", "latency_p99_ms"], "tags=best")
        assert [point.values for point in points.points] == [[0.9, 900.0]]
        assert (await client.runs.logs(three["slow"]), (await client.runs.resources(three["slow"])).series) == ([], [])
        assert (await client.runs.samples(three["slow"], "outcome=answered")).items == []
