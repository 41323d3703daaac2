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
        "preset": None,
        "rate_per_s": 5.0,
        "arrivals": "poisson",
        "cv": None,
        "burst_size": None,
        "to_rate_per_s": None,
        "traced": 0,
        "concurrency": 1,
        "requests": None,
        "duration_s": 4.0,
        "conversations": None,
        "turns": None,
        "think_s": None,
        "prompt": None,
        "prompt_tokens": 7,
        "output_tokens": 9,
        "images": 0,
        "image_size": None,
        "image_reuse": 0.0,
        "warmup": 2,
        "baseline": 0,
        "timeout_s": 300.0,
        "seed": 3,
        "extra_body": {},
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
        {"turns": 3},
        {"scenario": "interactive", "rate_per_s": None, "duration_s": None},
        {"scenario": "interactive", "requests": 3},
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


async def _spec(api: Served, body: dict[str, Any]) -> Any:
    answer = await api.http.post("/loads", json=body)
    assert answer.status_code == 201, answer.text
    return (await api.http.get(f"/runs/{answer.json()['id']}")).json()["spec"]


@pytest.mark.parametrize(
    ("given", "spec"),
    [
        ({"arrivals": "gamma", "cv": 3}, {"process": "gamma", "cv": 3.0}),
        ({"arrivals": "burst", "burst_size": 4}, {"process": "burst", "burst_size": 4}),
        ({"arrivals": "ramp", "to_rate_per_s": 9}, {"process": "ramp", "last_rate_per_s": 9.0}),
    ],
)
async def test_requests_arrive_by_any_process_of_the_command(
    api: Served, given: dict[str, object], spec: dict[str, object]
) -> None:
    arrivals = (await _spec(api, {**RATE, **given}))["scenario"]["arrivals"]
    assert spec.items() <= arrivals.items()


async def test_a_preset_sets_duration_numbers_and_content_by_its_rules(api: Served) -> None:
    base = {"url": RATE["url"], "model": "m", "rate_per_s": 1}
    quick = await _spec(api, {**base, "preset": "quick"})
    assert (quick["scenario"]["duration_s"], quick["scenario"]["preset"]) == (10.0, "quick")
    limits = {"ttft_p99": 2000, "tpot_p99": 100}
    official = await _spec(api, {**base, "preset": "official", "slo": {"limits_ms": limits}})
    assert official["scenario"]["requests"] == 662  # of about 600 within 600 s
    vlm = await _spec(api, {**base, "rate_per_s": 4, "preset": "vlm"})
    params = vlm["dataset"]["params"]
    assert (params["images"], params["image_size"], params["prompt_tokens"]) == (1, "512x512,768x768,1024x1024", 256)
    assert vlm["scenario"]["slo"]["limits_ms"] == {"latency_p99": 12_000.0}
    assert 2200 < vlm["scenario"]["requests"] < 2600
    alone = await _spec(api, {"url": RATE["url"], "model": "m", "scenario": "single_stream", "preset": "official"})
    assert (alone["scenario"]["requests"], alone["scenario"]["preset"]) == (64, "official")


async def test_a_preset_sets_streams_and_requests_of_the_other_scenarios(api: Served) -> None:
    base = {"url": RATE["url"], "model": "m"}
    queries = await _spec(api, {**base, "scenario": "multi_stream", "preset": "official"})
    assert (queries["scenario"]["in_flight"], queries["scenario"]["requests"]) == (8, 662 * 8)
    batch = await _spec(api, {**base, "scenario": "offline", "concurrency": 16, "preset": "official"})
    assert (batch["scenario"]["in_flight"], batch["scenario"]["requests"]) == (16, 24_576)
    assert batch["dataset"]["params"]["requests"] == 24_578  # each prompt is different, and so is the warm-up
    talks = {**base, "scenario": "interactive", "rate_per_s": 1, "turns": 5, "preset": "official"}
    limits = {"limits_ms": {"ttft_p99": 2000, "tpot_p99": 100}}
    arriving = (await _spec(api, {**talks, "slo": limits}))["scenario"]
    assert (arriving["turns"], arriving["requests"] % 5, arriving["arrivals"]["rate_per_s"]) == (5, 0, 1.0)
    assert 2700 < arriving["requests"] < 3300  # about 600 conversations within 600 s


async def test_conversations_have_turns_about_the_same_images(api: Served) -> None:
    body = {"url": RATE["url"], "model": "m", "scenario": "interactive", "conversations": 6, "concurrency": 2}
    load = (await api.http.post("/loads", json={**body, "images": 1, "think_s": 0.5})).json()
    asked = load["workload"]
    assert [asked[name] for name in ("conversations", "turns", "think_s", "requests")] == [6, 4, 0.5, None]
    spec = (await api.http.get(f"/runs/{load['id']}")).json()["spec"]
    assert (spec["scenario"]["requests"], spec["dataset"]["params"]["turns"]) == (24, 4)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"preset": "official", "duration_s": 60},
        {"preset": "official", "requests": 60},
        {"preset": "official", "arrivals": "constant"},
        {"preset": "vlm", "slo": {"limits_ms": {"ttft_p99": 5}}},
        {"preset": "official", "scenario": "single_stream", "rate_per_s": None, "requests": 63},
        {"preset": "official", "scenario": "multi_stream", "rate_per_s": None, "requests": 63},
        {"preset": "official", "scenario": "multi_stream", "rate_per_s": None, "concurrency": 4},
        {"preset": "quick", "scenario": "interactive", "rate_per_s": None},
        {"preset": "quick", "scenario": "interactive", "conversations": 3},
    ],
)
async def test_a_load_that_breaks_a_rule_of_its_preset_is_refused(api: Served, change: dict[str, object]) -> None:
    body = {"url": RATE["url"], "model": "m", "rate_per_s": 1, "preset": "official", **change}
    answer = await api.http.post("/loads", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "preset"), answer.text
    assert answer.json()["cure"]


TRACE = [{"timestamp_s": 100.0, "prompt_tokens": 3}, {"timestamp_s": 101.0, "output_tokens": 2}]


async def test_a_trace_is_replayed_at_its_times_with_its_lengths(api: Served) -> None:
    body = {"url": RATE["url"], "model": "m", "prompt_tokens": 8, "trace": TRACE, "speed": 2}
    spec = await _spec(api, body)
    arrivals = spec["scenario"]["arrivals"]
    assert (arrivals["process"], arrivals["times_s"], arrivals["output_tokens"]) == ("trace", [0.0, 0.5], [None, 2])
    assert spec["dataset"]["params"] == {"requests": 2, "prompt_tokens": [3, 8]}
    load = (await api.http.post("/loads", json=body)).json()
    assert (load["workload"]["traced"], load["workload"]["rate_per_s"]) == (2, None)
    assert "2 requests" in load["in_words"]


@pytest.mark.parametrize(
    "change",
    [
        {"trace": TRACE[::-1]},
        {"rate_per_s": 3},
        {"requests": 3},
        {"trace": [{"timestamp_s": "soon"}]},
        {"trace": [], "rate_per_s": 1, "requests": 3, "speed": 2},
        {"cv": 2},
    ],
)
async def test_a_trace_that_cannot_be_replayed_is_refused(api: Served, change: dict[str, object]) -> None:
    answer = await api.http.post("/loads", json={"url": RATE["url"], "model": "m", "trace": TRACE, **change})
    assert answer.status_code == 422, answer.text


async def test_a_sweep_is_an_experiment_of_loads_with_an_axis(api: Served) -> None:
    answer = await api.http.post("/loads/sweeps", json={"load": RATE, "axis": "rate", "values": [1, 2.5, 4]})
    assert answer.status_code == 201, answer.text
    experiment = answer.json()
    assert experiment["name"] == "rate of m"
    axes = (await api.http.get(f"/experiments/{experiment['id']}/axes")).json()["axes"]
    values = {axis["column"]: axis["values"] for axis in axes}
    assert values["spec.scenario.arrivals.rate_per_s"] == [1.0, 2.5, 4.0]
    loads = (await api.http.get("/loads")).json()["items"]
    assert len(loads) == 3
    seeds = {(await api.http.get(f"/loads/{load['id']}")).json()["workload"]["seed"] for load in loads}
    assert seeds == {0, 1, 2}


async def test_a_sweep_of_the_requests_in_flight_has_whole_numbers(api: Served) -> None:
    load = {"url": RATE["url"], "model": "m", "scenario": "multi_stream", "requests": 9}
    answer = await api.http.post("/loads/sweeps", json={"load": load, "axis": "concurrency", "values": [1, 2]})
    assert answer.status_code == 201, answer.text
    loads = (await api.http.get("/loads")).json()["items"]
    details = [(await api.http.get(f"/loads/{load['id']}")).json()["workload"] for load in loads]
    assert sorted((detail["scenario"], detail["concurrency"]) for detail in details) == [
        ("multi_stream", 1),
        ("multi_stream", 2),
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"axis": "concurrency"},
        {"values": [1]},
        {"values": [1, 1]},
        {"load": {**RATE, "arrivals": "ramp", "to_rate_per_s": 9}},
        {"load": {"url": RATE["url"], "model": "m", "trace": TRACE}},
        {"axis": "concurrency", "values": [1, 2.5], "load": {"url": "http://h/v1", "model": "m", "requests": 9}},
    ],
)
async def test_a_sweep_that_does_not_fit_its_load_is_refused(api: Served, change: dict[str, object]) -> None:
    answer = await api.http.post("/loads/sweeps", json={"load": RATE, "axis": "rate", "values": [1, 2], **change})
    assert answer.status_code == 422, answer.text


async def test_repeats_are_an_experiment_of_loads_that_differ_in_their_seed(api: Served) -> None:
    answer = await api.http.post("/loads/repeats", json={"load": {**RATE, "seed": 5}, "repeats": 3})
    assert answer.status_code == 201, answer.text
    loads = (await api.http.get("/loads")).json()["items"]
    seeds = {(await api.http.get(f"/loads/{load['id']}")).json()["workload"]["seed"] for load in loads}
    assert seeds == {5, 6, 7}
    means = (await api.http.get(f"/loads/repeats/{answer.json()['id']}")).json()
    assert means == {"repeats": 3, "ended": 0, "valid": None, "metrics": {}}
    sweep = (await api.http.post("/loads/sweeps", json={"load": RATE, "axis": "rate", "values": [1, 2]})).json()
    assert (await api.http.get(f"/loads/repeats/{sweep['id']}")).status_code == 422
    assert (await api.http.get(f"/loads/repeats/{loads[0]['id']}")).status_code == 404
