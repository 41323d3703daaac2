"""Logs by line, and resources over time."""

from __future__ import annotations

import io
from pathlib import Path
from uuid import UUID, uuid4

import polars
import pytest
from sqlalchemy import insert

from tests.api.conftest import Served
from tests.support.builders import Shard, add_shard, add_worker
from vlmhyperbench.db import artifacts
from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import ClaimRow

pytestmark = pytest.mark.anyio

LINES = [f"line {number} \u05d0" for number in range(1, 1001)]


@pytest.fixture
async def shard(api: Served) -> Shard:
    async with api.database.transaction() as session:
        shard = await add_shard(session)
        worker_id = await add_worker(session)
        claim = {"id": shard.claim_id, "job_id": shard.job_id, "run_id": shard.run.id, "worker_id": worker_id}
        recorded = {"host": "host", "machine": {}, "packages": {}}
        await session.execute(
            insert(table_of(ClaimRow)).values(attempt_id=uuid4(), boot_id=uuid4(), **claim, **recorded)
        )
        return shard


async def _add(api: Served, shard: Shard, kind: artifacts.ArtifactKind, name: str, content: bytes) -> UUID:
    stored = api.storage.put(f"runs/{shard.run.id}/{kind}/{name}", content)
    async with api.database.transaction() as session:
        return await artifacts.add(
            session,
            project_id=shard.run.project_id,
            claim_id=shard.claim_id,
            kind=kind,
            name=name,
            media_type="text/plain",
            storage_key=stored.key,
            sha256=stored.sha256,
            size_bytes=stored.size_bytes,
            run_id=shard.run.id,
        )


async def test_a_log_is_read_from_its_end_in_ranges_and_by_search(api: Served, shard: Shard) -> None:
    log_id = await _add(api, shard, "log", "engine.log", "\n".join(LINES).encode() + b"\n")
    (log,) = (await api.http.get(f"/runs/{shard.run.id}/logs")).json()
    assert (log["id"], log["of"], log["claim_id"], log["host"]) == (str(log_id), "engine", str(shard.claim_id), "host")
    path = f"/runs/{shard.run.id}/logs/{log_id}"
    tail = (await api.http.get(path, params={"limit": 2})).json()
    assert [(line["no"], line["text"]) for line in tail["lines"]] == [(999, LINES[998]), (1000, LINES[999])]
    assert (tail["total"], tail["matching"], tail["next"]) == (1000, None, None)
    first = (await api.http.get(path, params={"after": 0, "limit": 600})).json()
    second = (await api.http.get(path, params={"after": first["next"], "limit": 600})).json()
    assert [line["text"] for line in (*first["lines"], *second["lines"])] == LINES
    assert (first["next"], second["next"]) == (600, None)
    found = (await api.http.get(path, params={"q": "LINE 77"})).json()
    assert ([line["no"] for line in found["lines"]], found["matching"]) == ([77, *range(770, 780)], 11)


async def test_lines_beyond_the_end_of_a_log_are_none_and_rubbish_is_refused(api: Served, shard: Shard) -> None:
    log_id = await _add(api, shard, "log", "engine.log", "\n".join(LINES).encode())
    empty_id = await _add(api, shard, "log", "worker.log", b"")
    path = f"/runs/{shard.run.id}/logs/{log_id}"
    for after in (1000, 1001, 10**9, 2**63 - 1):
        found = (await api.http.get(path, params={"after": after})).json()
        assert (found["lines"], found["total"], found["next"]) == ([], 1000, None)
    empty = (await api.http.get(f"/runs/{shard.run.id}/logs/{empty_id}")).json()
    assert (empty["lines"], empty["total"]) == ([], 0)
    rubbish = ({"after": "-1"}, {"after": "x"}, {"after": "9" * 30}, {"limit": "0"}, {"limit": "2001"}, {"q": "a\0"})
    for wrong in rubbish:
        answer = await api.http.get(path, params=wrong)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input"), wrong


async def test_logs_name_what_wrote_them(api: Served, shard: Shard) -> None:
    for writer in ("engine", "gateway", "worker"):
        await _add(api, shard, "log", f"{writer}-{shard.claim_id}.log", b"x")
    logs = (await api.http.get(f"/runs/{shard.run.id}/logs")).json()
    assert [log["of"] for log in logs] == ["engine", "gateway", "worker"]


async def test_a_log_of_another_run_or_project_is_not_found(api: Served, shard: Shard) -> None:
    log_id = await _add(api, shard, "log", "engine.log", b"x")
    async with api.database.transaction() as session:
        other = await add_shard(session)
    assert (await api.http.get(f"/runs/{other.run.id}/logs/{log_id}")).status_code == 404
    stranger = {"X-API-Key": await api.add_key(project="other")}
    assert (await api.http.get(f"/runs/{shard.run.id}/logs", headers=stranger)).status_code == 404
    assert (await api.http.get(f"/runs/{shard.run.id}/logs/{log_id}", headers=stranger)).status_code == 404


async def test_resources_are_binned_on_one_clock_with_phases_and_claims(api: Served, shard: Shard) -> None:
    start_ns = 1_700_000_000_000_000_000
    count = 1000
    frame = polars.DataFrame(
        {
            "monotonic_ns": range(count),
            "wall_ns": [start_ns + number * 1_000_000_000 for number in range(count)],
            "cpu_util_percent": [10.0] * (count - 1) + [90.0],
            "memory_used_bytes": range(count),
            "power_accelerator_w": [None] * count,
        },
        schema_overrides={"power_accelerator_w": polars.Float64},
    )
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    await _add(api, shard, "resources", "resources.parquet", buffer.getvalue())
    resources = (await api.http.get(f"/runs/{shard.run.id}/resources", params={"points": 10})).json()
    (series,) = resources["series"]
    assert (len(series["at_ms"]), series["samples"]) == (10, count)
    assert series["at_ms"] == sorted(series["at_ms"])
    assert start_ns / 1e6 <= series["at_ms"][0] <= series["at_ms"][-1] <= start_ns / 1e6 + count * 1000
    assert set(series["mean"]) == {"cpu_util_percent", "memory_used_bytes"}
    assert (series["mean"]["cpu_util_percent"][0], series["max"]["cpu_util_percent"][-1]) == (10.0, 90.0)
    assert series["overall_max"] == {"cpu_util_percent": 90.0, "memory_used_bytes": 999.0}
    assert series["overall_mean"] == {"cpu_util_percent": pytest.approx(10.08), "memory_used_bytes": 499.5}
    assert {(span["kind"], span["name"]) for span in resources["spans"]} == {
        ("claim", "GENERATE"),
        ("phase", "accuracy"),
    }


async def test_a_damaged_series_is_named(api: Served, shard: Shard, tmp_path: Path) -> None:
    await _add(api, shard, "resources", "resources.parquet", b"x")
    (tmp_path / "storage" / f"runs/{shard.run.id}/resources/resources.parquet").write_bytes(b"y")
    resources = (await api.http.get(f"/runs/{shard.run.id}/resources")).json()
    assert (resources["series"], len(resources["missing"])) == ([], 1)
