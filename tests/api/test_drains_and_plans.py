"""Drain and resume over the API, and plans on paper."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.api.conftest import Served
from tests.support.builders import add_worker
from vlmhyperbench.db import memory
from vlmhyperbench.domain.specs import RunSpec

pytestmark = pytest.mark.anyio


async def test_a_worker_is_drained_and_resumed_by_its_name_with_reason_and_person(api: Served) -> None:
    async with api.database.transaction() as session:
        worker_id = await add_worker(session, name="drained")
    body = {"scope": "worker", "name": f"drained-{worker_id}", "reason": "fans"}
    made = await api.http.post("/workers/drains", json=body)
    assert made.status_code == 201
    drained = made.json()
    assert (drained["name"], drained["reason"], drained["resumed_by"]) == (f"inference.{worker_id}", "fans", None)
    workers = {item["id"]: item for item in (await api.http.get("/workers?limit=500")).json()["items"]}
    assert workers[str(worker_id)]["drained"] == f"by {drained['drained_by']}: fans"
    assert drained["id"] in [item["id"] for item in (await api.http.get("/workers/drains")).json()["items"]]
    resumed = await api.http.post("/workers/drains/resume", json={"scope": "worker", "name": str(worker_id)})
    assert (resumed.status_code, resumed.json()["resumed_by"]) == (200, drained["drained_by"])
    again = await api.http.post("/workers/drains/resume", json={"scope": "worker", "name": str(worker_id)})
    assert (again.status_code, again.json()["code"]) == (409, "not_drained")
    kept = (await api.http.get("/workers/drains?include_resumed=true")).json()["items"]
    assert drained["id"] in [item["id"] for item in kept]


@pytest.mark.parametrize("scope", ["worker", "device", "machine"])
async def test_what_is_not_known_is_not_drained(api: Served, scope: str) -> None:
    answer = await api.http.post("/workers/drains", json={"scope": scope, "name": "nothing", "reason": "x"})
    assert (answer.status_code, answer.json()["code"]) == (404, f"unknown_{scope}")


async def test_a_drain_needs_a_reason_and_the_right_to_it(api: Served) -> None:
    answer = await api.http.post("/workers/drains", json={"scope": "machine", "name": "host", "reason": ""})
    assert answer.status_code == 422
    key = await api.add_key("worker:read")
    body = {"scope": "machine", "name": "host", "reason": "x"}
    refused = await api.http.post("/workers/drains", json=body, headers={"X-API-Key": key})
    assert refused.status_code == 403


async def test_an_experiment_is_planned_on_declared_workers(api: Served) -> None:
    def run(name: str, gib: float, **more: object) -> dict[str, object]:
        params = {"device_memory_gib": gib, **more}
        target = {"model": "simulated", "engine_params": params}
        return {"name": name, "target": target, "task": "document-qa", "limit": 2, "shares_device": True}

    runs = [run("large", 15), run("small", 4), run("huge", 100), run("pair", 20, tensor_parallel=2)]
    body = {
        "experiment": {"runs": runs},
        "workers": [{"name": "one", "devices_gib": [24]}, {"name": "two", "devices_gib": [16, 16]}],
    }
    answer = await api.http.post("/workers/plan", json=body)
    assert answer.status_code == 200, answer.text
    plan = answer.json()
    assert plan["is_declared"]
    placed = {item["run"]: item for item in plan["placements"]}
    assert set(placed) == {"large", "small", "pair"}
    assert (placed["pair"]["worker"], placed["pair"]["devices"]) == ("two", [0, 1])
    assert placed["large"]["worker"] == "one"
    assert [item["run"] for item in plan["refused"]] == ["huge"]
    assert "device_memory_gib" in plan["refused"][0]["reason"]
    assert plan["makespan_s"] is None
    assert "small" in plan["unknown"]
    listed = await api.http.get("/experiments")
    assert listed.json()["items"] == []


async def test_a_declared_worker_has_the_slots_of_a_real_one_and_what_was_measured_on_its_device(api: Served) -> None:
    def run(name: str, gib: float) -> dict[str, object]:
        target = {"model": "simulated", "engine_params": {"device_memory_gib": gib, "seed": 77}}
        return {"name": name, "target": target, "task": "document-qa", "limit": 2, "shares_device": True}

    small = [run(f"small-{no}", 1) for no in range(6)]
    worker: dict[str, object] = {"name": "one", "devices_gib": [24]}

    async def planned(runs: list[dict[str, object]]) -> dict[str, Any]:
        answer = await api.http.post("/workers/plan", json={"experiment": {"runs": runs}, "workers": [worker]})
        assert answer.status_code == 200, answer.text
        plan: dict[str, Any] = answer.json()
        return plan

    plan = await planned(small)
    assert [item["starts_s"] for item in plan["placements"]].count(0.0) == 4
    assert (len(plan["placements"]), plan["judged"]) == (6, [])

    made = await api.http.post("/runs/plan", json={"run": run("large", 23)})
    digest = RunSpec.model_validate(made.json()["spec"]).target_digest
    async with api.database.transaction() as session:
        await memory.write_peak(session, digest, "measured card", 10 * 1024**3)
    assert [item["run"] for item in (await planned([run("large", 23)]))["refused"]] == ["large"]
    worker["device_name"] = "measured card"
    [placed] = (await planned([run("large", 23)]))["placements"]
    assert placed["bytes_each"] == math.ceil(10 * 1024**3 * 1.05)


async def test_a_timed_scenario_cannot_share_its_device(api: Served) -> None:
    run = {
        "target": {"model": "simulated"},
        "task": "document-qa",
        "scenario": {"name": "alone", "kind": "single_stream"},
        "shares_device": True,
    }
    answer = await api.http.post("/runs", json={"run": run})
    assert answer.status_code == 422
    assert "shares_device" in answer.text
