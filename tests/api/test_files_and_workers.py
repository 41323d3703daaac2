from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from tests.api.conftest import Served
from tests.support.builders import add_run, add_shard, add_worker, run_spec
from tests.support.processes import eventually
from vlmhyperbench.db import artifacts, claims, held_models, runs, workers
from vlmhyperbench.db.engine import Database
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench_api.openapi import description

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.anyio


async def _add_file(
    api: Served, run_id: str, name: str, content: bytes, *, kind: artifacts.ArtifactKind = "report"
) -> UUID:
    claim_id = uuid4()
    stored = api.storage.put(f"runs/{run_id}/reports/{claim_id}/{name}", content)
    async with api.database.transaction() as session:
        return await artifacts.add(
            session,
            project_id="default",
            claim_id=claim_id,
            kind=kind,
            name=name,
            media_type="text/html",
            storage_key=stored.key,
            sha256=stored.sha256,
            size_bytes=stored.size_bytes,
            run_id=UUID(run_id),
        )


async def _run(api: Served) -> str:
    return str((await api.http.post("/runs", json={"run": "simulated-instant"})).json()["id"])


async def test_a_file_is_listed_described_and_downloaded(api: Served) -> None:
    run_id = await _run(api)
    file_id = await _add_file(api, run_id, "report.html", b"<p>hello")
    listed = (await api.http.get(f"/artifacts?run_id={run_id}")).json()["items"]
    assert [(item["id"], item["name"], item["size_bytes"]) for item in listed] == [(str(file_id), "report.html", 8)]
    answer = await api.http.get(f"/artifacts/{file_id}/content")
    assert answer.content == b"<p>hello"
    assert hashlib.sha256(answer.content).hexdigest() == listed[0]["sha256"]
    assert answer.headers["content-disposition"] == 'attachment; filename="report.html"'
    assert "sandbox" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"<p>hell")], ids=["gone", "cut short"])
async def test_a_missing_or_damaged_file_is_not_sent(
    api: Served, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    file_id = await _add_file(api, await _run(api), "report.html", b"<p>hello")
    (path,) = (tmp_path / "storage").rglob("report.html")
    damage(path)
    answer = await api.http.get(f"/artifacts/{file_id}/content")
    assert (answer.status_code, answer.json()["code"]) == (409, "storage_corrupt")
    assert "report.html" in answer.json()["message"]


async def test_a_file_of_another_project_is_not_found(api: Served) -> None:
    file_id = await _add_file(api, await _run(api), "report.html", b"x")
    other = {"X-API-Key": await api.add_key(project="other")}
    assert (await api.http.get(f"/artifacts/{file_id}", headers=other)).status_code == 404
    assert (await api.http.get(f"/artifacts/{file_id}/content", headers=other)).status_code == 404


async def test_a_report_has_its_headline_and_files(api: Served) -> None:
    run_id = await _run(api)
    headline = {"rows": [{"name": "a", "metrics": {}}]}
    await _add_file(api, run_id, "report.json", json.dumps({"headline": headline}).encode())
    await _add_file(api, run_id, "report.html", b"x")
    report = (await api.http.get(f"/reports/{run_id}")).json()
    assert (report["scope"], report["headline"]) == ("run", headline)
    assert [file["name"] for file in report["files"]] == ["report.html", "report.json"]


async def test_a_report_in_one_format_has_a_headline(api: Served) -> None:
    run_id = await _run(api)
    await _add_file(api, run_id, "report.html", b"x")
    row = {"name": "a", "state": "SUCCEEDED", "ok": 3}
    score = {"metric": "exact_match", "value": 1.0, "n": 3}
    async with api.database.transaction() as session:
        await runs.set_headline(session, UUID(run_id), {**row, "scores": [score]})
    report = (await api.http.get(f"/reports/{run_id}")).json()
    assert report["headline"] == {"rows": [{**row, "metrics": {"exact_match": {"value": 1.0, "n": 3}}}]}


async def test_a_run_without_a_report_is_refused_with_the_reason(api: Served) -> None:
    answer = await api.http.get(f"/reports/{await _run(api)}")
    assert (answer.status_code, answer.json()["code"]) == (409, "no_report")


async def test_workers_are_listed_with_their_devices_and_stale_ones_are_marked(api: Served) -> None:
    async with api.database.transaction() as session:
        fresh = await add_worker(session, name="fresh")
        stale = await add_worker(session, name="stale")
        statement = "UPDATE worker SET last_seen_at = now() - interval '1 hour' WHERE id = :id"
        await session.execute(text(statement), {"id": stale})
    result = {item["id"]: item for item in (await api.http.get("/workers?limit=500")).json()["items"]}
    assert not result[str(fresh)]["is_stale"]
    assert result[str(stale)]["is_stale"]
    assert [device["kind"] for device in result[str(fresh)]["devices"]] == ["cpu"]


async def _workers(api: Served, project: str) -> dict[str, dict[str, Any]]:
    key = await api.add_key(project=project)
    answer = await api.http.get("/workers?limit=500", headers={"X-API-Key": key})
    assert answer.status_code == 200, answer.text
    return {item["id"]: item for item in answer.json()["items"]}


async def test_a_worker_shows_its_job_and_what_it_keeps_loaded_by_name(api: Served) -> None:
    project, name = f"p{uuid4().hex[:12]}", "بطاقة <b>"
    spec = run_spec(model_name=name)
    held = ModelTarget(model="asked", version="1", backend="simulated", backend_class="simulated", quantization="q4")
    async with api.database.transaction() as session:
        run = await add_run(session, name="mine", project_id=project, spec=spec)
        shard = await add_shard(session, run=run, end=100)
        worker = (
            await session.execute(text("SELECT worker_id FROM job WHERE id = :id"), {"id": shard.job_id})
        ).scalar()
        digests = [spec.target_digest, digest_of(held), "0" * 64]
        await claims.set_resident(session, worker, digests)
        await held_models.ask_to_load(
            session,
            project,
            "asked",
            target=held.model_dump(mode="json"),
            digest=digests[1],
            is_pinned=False,
            by="anna",
        )
    for _ in range(2):  # from the database, then from what the process remembers
        shown = (await _workers(api, project))[str(worker)]
        assert shown["resident"] == [
            {"digest": digest, "name": known} for digest, known in zip(digests, [name, "asked (q4)", None], strict=True)
        ]
    (job,) = shown["jobs"]
    assert (job["kind"], job["state"], job["name"], job["total"]) == ("GENERATE", "RUNNING", "mine", 100)
    assert (job["run_id"], job["experiment_id"]) == (str(run.id), None)


async def test_a_job_and_a_model_of_another_project_have_no_name(api: Served) -> None:
    async with api.database.transaction() as session:
        run = await add_run(session, project_id=f"p{uuid4().hex[:12]}", spec=run_spec(model_name="secret"))
        shard = await add_shard(session, run=run)
        worker = (
            await session.execute(text("SELECT worker_id FROM job WHERE id = :id"), {"id": shard.job_id})
        ).scalar()
        await claims.set_resident(session, worker, [run.pinned_spec().target_digest])
    shown = (await _workers(api, f"p{uuid4().hex[:12]}"))[str(worker)]
    assert [target["name"] for target in shown["resident"]] == [None]
    assert [(job["name"], job["run_id"]) for job in shown["jobs"]] == [(None, None)]


async def test_a_device_in_quarantine_is_shown_with_its_reason_and_released_by_a_person(api: Served) -> None:
    async with api.database.transaction() as session:
        worker_id = await add_worker(session, name="broken")
        await session.execute(
            text("UPDATE device SET uuid = :uuid WHERE worker_id = :id"), {"id": worker_id, "uuid": f"GPU-{worker_id}"}
        )
        await workers.quarantine(session, worker_id, uuid=f"GPU-{worker_id}", reason="Xid 48.")

    async def device() -> dict[str, object]:
        items = (await api.http.get("/workers?limit=500")).json()["items"]
        [shown] = next(item["devices"] for item in items if item["id"] == str(worker_id))
        return {name: shown[name] for name in ("state", "state_reason", "state_by")}

    assert await device() == {"state": "BROKEN", "state_reason": "Xid 48.", "state_by": f"broken-{worker_id}"}
    path = f"/workers/devices/GPU-{worker_id}/release"
    reader = {"X-API-Key": await api.add_key("worker:read")}
    assert (await api.http.post(path, headers=reader)).status_code == 403
    assert (await api.http.post(path)).json() == {"uuid": f"GPU-{worker_id}", "was_broken": True}
    assert (await api.http.post(path)).json()["was_broken"] is False
    assert (await device())["state"] == "OK"
    assert (await api.http.post("/workers/devices/GPU-none/release")).json()["code"] == "not_found"


async def test_registry_entries_are_listed_and_shown_with_their_file(api: Served) -> None:
    listed = (await api.http.get("/registry?kind=experiments")).json()["items"]
    assert "demo" in [entry["name"] for entry in listed]
    shown = (await api.http.get("/registry/experiments/demo")).json()
    assert shown["file"] == "experiments/demo.yaml"
    assert shown["entry"]
    assert shown["text"] == (ROOT / "registries/experiments/demo.yaml").read_text("utf-8")


async def test_a_registry_entry_has_its_values_with_origins_and_the_entries_that_use_it(api: Served) -> None:
    shown = (await api.http.get("/registry/tasks/document-qa")).json()
    origins = {value["path"]: value["origin"] for value in shown["values"]}
    assert origins["dataset"].startswith("tasks/document-qa.yaml:")
    assert origins["on_invalid"] == "default"
    assert {"kind": "experiments", "name": "demo"} in shown["used_by"]
    made = {"name": f"mine-{uuid4().hex[:8]}", "dataset": "synthetic-questions", "prompt": "document-qa"}
    headers = {"X-API-Key": await api.add_key(project=made["name"])}
    task = (await api.http.post("/tasks", json={**made, "metrics": ["exact_match"]}, headers=headers)).json()
    stored = {value["path"]: value["origin"] for value in task["values"]}
    assert stored["dataset"].startswith(f"database/tasks/{made['name']}@1:")
    prompt = (await api.http.get("/registry/prompts/document-qa", headers=headers)).json()
    assert {"kind": "tasks", "name": made["name"]} in prompt["used_by"]


async def test_a_broken_registry_entry_is_listed_with_file_and_line(database: Database, tmp_path: Path) -> None:
    from vlmhyperbench_api.catalogue import Registries
    from vlmhyperbench_api.errors import problem_of

    (tmp_path / "broken" / "runs").mkdir(parents=True)
    (tmp_path / "broken" / "runs" / "bad.yaml").write_text("task: [\n")
    catalogue = await Registries([tmp_path / "broken"], run_mode="prod", database=database).catalogue("default")
    with pytest.raises(Exception, match=r"bad\.yaml") as refused:
        catalogue.get("runs", "bad")
    problem = problem_of(refused.value)
    assert problem.status == 422
    assert (problem.errors[0].file, problem.errors[0].line) == ("runs/bad.yaml", 2)


async def test_registry_files_are_read_again_when_they_change(database: Database, tmp_path: Path) -> None:
    from vlmhyperbench_api.catalogue import Registries

    registries = Registries([tmp_path], run_mode="prod", database=database)
    assert not (await registries.catalogue("default")).prompts
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "plain.yaml").write_text('user_prompt: "{{ question }}"\n')
    assert list((await registries.catalogue("default")).prompts) == ["plain"]


async def test_the_api_is_healthy_and_ready(api: Served) -> None:
    assert (await api.http.get("/health")).json()["status"] == "ok"

    async def is_ready() -> bool:
        ready = (await api.http.get("/ready")).json()
        return bool(ready == {"status": "ready", "checks": {"database": True, "bus": True}})

    await eventually(is_ready, "database and bus answer in time")


def test_docs_openapi_json_is_up_to_date() -> None:
    committed = Path(__file__).parents[2] / "docs" / "openapi.json"
    assert committed.read_text(encoding="utf-8") == description(), (
        "Run: python -m vlmhyperbench_api.openapi docs/openapi.json"
    )
