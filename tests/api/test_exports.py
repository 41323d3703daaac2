"""Exports that the platform writes: jobs with a lease, progress, a file that expires."""

from __future__ import annotations

import asyncio
import io
import json
import secrets
import zipfile
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from tests.api.conftest import Served
from tests.api.sample_runs import answered_run
from tests.support.processes import eventually
from vlmhyperbench.db import exports
from vlmhyperbench.db.engine import Database

pytestmark = pytest.mark.anyio

ANSWERS = ["a", "b", None]
RIGHT = [True, False, False]


@pytest.fixture(autouse=True)
async def project(api: Served) -> str:
    name = f"p{secrets.token_hex(6)}"
    api.http.headers["X-API-Key"] = await api.add_key(project=name)
    return name


async def _ended(api: Served, folder: Path, project: str) -> UUID:
    await asyncio.to_thread(folder.mkdir)
    run_id = await answered_run(api, folder, ANSWERS, right=RIGHT, project=project)
    async with api.database.transaction() as session:
        await session.execute(
            text("UPDATE run SET state = 'SUCCEEDED', finished_at = now() WHERE id = :id"), {"id": run_id}
        )
    return run_id


async def _made(api: Served, export_id: str) -> dict[str, Any]:
    async def ended() -> bool:
        return (await api.http.get(f"/exports/{export_id}")).json()["state"] not in ("QUEUED", "RUNNING")

    await eventually(ended, "end of the export")
    found: dict[str, Any] = (await api.http.get(f"/exports/{export_id}")).json()
    return found


async def test_an_export_is_written_followed_and_downloaded(api: Served, tmp_path: Path, project: str) -> None:
    run_id = await _ended(api, tmp_path / "a", project)
    asked = await api.http.post("/exports", json={"format": "jsonl", "runs": [str(run_id)]})
    assert asked.status_code == 202, asked.text
    made = await _made(api, asked.json()["id"])
    assert (made["state"], made["done"], made["total"], made["error"]) == ("DONE", 3, 3, None)
    answer = await api.http.get(f"/exports/{made['id']}/content")
    assert answer.headers["content-disposition"].endswith('.jsonl"')
    assert len(answer.content) == made["size_bytes"]
    assert "a" in str([json.loads(line) for line in answer.text.splitlines()])
    assert [item["id"] for item in (await api.http.get("/exports")).json()["items"]] == [made["id"]]
    other = {"X-API-Key": await api.add_key(project="other")}
    assert (await api.http.get(f"/exports/{made['id']}/content", headers=other)).status_code == 404


async def test_several_runs_are_one_archive(api: Served, tmp_path: Path, project: str) -> None:
    runs = [str(await _ended(api, tmp_path / name, project)) for name in ("a", "b")]
    asked = await api.http.post("/exports", json={"format": "csv", "runs": runs})
    made = await _made(api, asked.json()["id"])
    assert (made["state"], made["error"]) == ("DONE", None)
    content = (await api.http.get(f"/exports/{made['id']}/content")).content
    assert len(zipfile.ZipFile(io.BytesIO(content)).namelist()) == 2


async def test_an_export_of_a_process_that_died_is_written_by_another(
    api: Served, tmp_path: Path, project: str
) -> None:
    run_id = await _ended(api, tmp_path / "a", project)
    async with api.database.transaction() as session:
        added = await exports.add(session, project_id=project, run_ids=[run_id], format_="jsonl", created_by="somebody")
        dead = await exports.claim(session)  # nobody else sees the row before this transaction ends
        assert dead is not None
        assert dead.id == added.id
        await _let_the_lease_end(session, added.id)
    made = await _made(api, str(added.id))
    assert made["state"] == "DONE"
    async with api.database.transaction() as session:
        assert not await exports.renew(session, dead, done=1, total=3)
        found = await exports.get(session, added.id, project_id=project)
    assert found is not None
    assert found.attempts > dead.attempts
    assert found.claim_id != dead.claim_id


async def _let_the_lease_end(session: Any, export_id: UUID) -> None:
    await session.execute(
        text("UPDATE export SET lease_until = now() - interval '1 second' WHERE id = :id"), {"id": export_id}
    )


async def test_bad_requests_name_what_is_wrong(api: Served, tmp_path: Path, project: str) -> None:
    open_run = (await api.http.post("/runs", json={"run": "simulated-instant"})).json()["id"]
    nobody = "00000000-0000-4000-8000-000000000000"
    for body, status in (
        ({"format": "jsonl"}, 422),
        ({"format": "jsonl", "runs": [open_run], "experiment": nobody}, 422),
        ({"format": "docx", "runs": [open_run]}, 422),
        ({"format": "jsonl", "runs": [open_run]}, 409),
        ({"format": "jsonl", "runs": [nobody]}, 404),
        ({"format": "jsonl", "experiment": nobody}, 404),
    ):
        answer = await api.http.post("/exports", json=body)
        assert answer.status_code == status, answer.text
        assert answer.json()["cure"]
    assert (await api.http.get(f"/exports/{nobody}")).status_code == 404


async def test_leases_cancellation_and_expiry_are_kept_by_the_database(database: Database, project: str) -> None:
    """The rows alone; the loop of a process may claim none of them, so each is locked until it has ended."""
    async with database.transaction() as session:
        first = await exports.add(session, project_id=project, run_ids=[], format_="csv", created_by="a")
        claimed = await exports.claim(session)
        assert claimed is not None
        assert (claimed.id, claimed.attempts) == (first.id, 1)
        assert await exports.claim(session) is None
        assert await exports.renew(session, claimed, done=5, total=9)
        await exports.cancel(session, first.id)
        assert not await exports.renew(session, claimed, done=6, total=9)
        second = await exports.add(session, project_id=project, run_ids=[], format_="csv", created_by="a")
        for _ in range(exports.MAX_ATTEMPTS):
            assert await exports.claim(session) is not None
            await _let_the_lease_end(session, second.id)
        assert await exports.claim(session) is None
        failed = await exports.get(session, second.id, project_id=project)
        assert failed is not None
        assert failed.state == "FAILED"
        third = await exports.add(session, project_id=project, run_ids=[], format_="csv", created_by="a")
        held = await exports.claim(session)
        assert held is not None
        done = {"done": 1, "name": "n", "storage_key": "exports/k", "sha256": "0" * 64, "size_bytes": 1}
        assert await exports.finish(session, held, **done)
        assert "exports/k" not in await exports.expire(session)
        await session.execute(
            text("UPDATE export SET expires_at = now() - interval '1 s' WHERE id = :id"), {"id": third.id}
        )
        assert await exports.expire(session) == ["exports/k"]
