"""Loads against any endpoint, which are runs of the task `load`."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from tests.api.conftest import Served

pytestmark = pytest.mark.anyio

RATE: dict[str, Any] = {
    "url": "http://127.0.0.1:9/v1",
    "model": "m",
    "rate_per_s": 5,
    "duration_s": 4,
    "prompt_tokens": 7,
    "output_tokens": 9,
    "slo": {"limits_ms": {"ttft_p99": 500}},
}


@pytest.fixture(autouse=True)
async def project(api: Served) -> str:
    name = f"p{secrets.token_hex(6)}"
    api.http.headers["X-API-Key"] = await api.add_key(project=name)
    return name


async def test_a_load_is_a_run_with_an_endpoint_and_a_data_set_of_its_own(api: Served) -> None:
    answer = await api.http.post("/loads", json={**RATE, "api_key_secret": "lab", "seed": 3})
    assert answer.status_code == 201, answer.text
    load = answer.json()
    assert (load["state"], load["url"], load["model"], load["result"]) == ("QUEUED", RATE["url"], "m", None)
    assert load["workload"] == {
        "scenario": "server",
        "rate_per_s": 5.0,
        "arrivals": "poisson",
        "concurrency": 1,
        "requests": None,
        "duration_s": 4.0,
        "prompt_tokens": 7,
        "output_tokens": 9,
        "images": 0,
        "image_size": None,
        "api_key_secret": "lab",
    }
    spec = (await api.http.get(f"/runs/{load['id']}")).json()["spec"]
    assert spec["target"]["kind"] == "endpoint"
    assert spec["dataset"]["params"] == {"requests": 22, "prompt_tokens": 7}
    assert spec["dataset"]["seed"] == spec["scenario"]["seed"] == 3
    assert spec["scenario"]["slo"]["limits_ms"] == {"ttft_p99": 500.0}


async def test_a_closed_loop_has_requests_in_flight_and_images(api: Served) -> None:
    closed = {
        "url": RATE["url"],
        "model": "m",
        "scenario": "multi_stream",
        "concurrency": 3,
        "requests": 12,
        "images": 2,
    }
    load = (await api.http.post("/loads", json=closed)).json()
    workload = load["workload"]
    assert (workload["scenario"], workload["concurrency"], workload["requests"]) == ("multi_stream", 3, 12)
    assert (workload["images"], workload["image_size"]) == (2, "512x512")


@pytest.mark.parametrize(
    "change",
    [
        {"rate_per_s": None},
        {"requests": 5},
        {"duration_s": None},
        {"scenario": "multi_stream"},
        {"url": "file:///etc/passwd"},
        {"url": "http://user:word@host/v1"},
        {"slo": {"limits_ms": {"speed_p99": 5}}},
        {"image_size": "big"},
        {"prompt_tokens": 0},
        {"extra_body": {"max_tokens": 5}},
    ],
)
async def test_a_load_that_cannot_be_sent_is_refused(api: Served, change: dict[str, object]) -> None:
    answer = await api.http.post("/loads", json={**RATE, **change})
    assert answer.status_code == 422, answer.text
    assert answer.json()["cure"] or all(item["cure"] for item in answer.json()["errors"])


async def test_the_same_key_starts_one_load(api: Served) -> None:
    sent = [await api.http.post("/loads", json=RATE, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert sent[0].json()["id"] == sent[1].json()["id"]
    assert len((await api.http.get("/loads")).json()["items"]) == 1


async def test_loads_are_listed_newest_first_without_other_runs_and_cancelled(api: Served) -> None:
    run = (await api.http.post("/runs", json={"run": "simulated-instant"})).json()
    first = (await api.http.post("/loads", json={**RATE, "name": "first"})).json()
    await api.http.post("/loads", json={**RATE, "name": "second"})
    page = (await api.http.get("/loads?limit=1")).json()
    rest = (await api.http.get("/loads", params={"limit": 1, "cursor": page["next"]})).json()
    assert [item["name"] for item in (*page["items"], *rest["items"])] == ["second", "first"]
    assert (await api.http.post(f"/loads/{first['id']}/cancel")).status_code == 200
    assert (await api.http.get(f"/runs/{first['id']}")).json()["is_cancelling"]
    assert (await api.http.get(f"/loads/{run['id']}")).status_code == 404
    assert (await api.http.post(f"/loads/{run['id']}/cancel")).status_code == 404
    assert not (await api.http.get(f"/runs/{run['id']}")).json()["is_cancelling"]


async def test_a_load_needs_the_scope_of_runs(api: Served, project: str) -> None:
    reader = {"X-API-Key": await api.add_key("run:read", project=project)}
    assert (await api.http.post("/loads", json=RATE, headers=reader)).status_code == 403
    assert (await api.http.get("/loads", headers=reader)).status_code == 200
