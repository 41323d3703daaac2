"""A dry run over the API: what a run would be, ask, need and take, or all that is wrong with it; nothing is created."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.api.conftest import Served
from tests.support.builders import add_worker
from tests.support.wording import Wording
from vlmhyperbench.client import AsyncClient
from vlmhyperbench.db import manifests, memory
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.planning import dataset_digest
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.wire.registry import MAX_PASTED

pytestmark = pytest.mark.anyio

RUN: dict[str, Any] = {"target": {"model": "simulated-instant"}, "task": "document-qa", "limit": 20}

DATASET = "synthetic-documents"
"""The dataset of the task; tests that store a manifest of it use a seed of their own."""


async def _plan(api: Served, **more: Any) -> dict[str, Any]:
    answer = await api.http.post("/runs/plan", json={"run": RUN, **more})
    assert answer.status_code == 200, answer.text
    plan: dict[str, Any] = answer.json()
    return plan


async def test_a_plan_says_what_the_run_would_be_and_creates_nothing(api: Served) -> None:
    plan = await _plan(api, name="tried", origins={"limit": "--limit"})
    assert (plan["name"], plan["spec"]["task"], plan["spec"]["dataset"]["limit"]) == ("tried", "document-qa", 20)
    assert plan["configuration"]["dataset.limit"] == {"value": 20, "origin": "--limit"}
    assert plan["configuration"]["metrics.0.name"]["origin"].startswith("tasks/document-qa.yaml:")
    assert (plan["samples"]["count"], plan["samples"]["basis"]) == (20, "limit")
    assert {item["kind"]: item["count"] for item in plan["requests"]} == {"warmup": 2, "answers": 20}
    assert plan["time"]["expected_s"] is None
    assert plan["command"] == ("vlmhyperbench run --model simulated-instant --task document-qa --limit 20 --name tried")
    assert not plan["command_file"]
    assert "tried" not in [run["name"] for run in (await api.http.get("/runs?limit=500")).json()["items"]]


async def test_a_plan_is_the_run_that_is_then_submitted(api: Served) -> None:
    plan = await _plan(api)
    made = await api.http.post("/runs", json={"run": RUN})
    assert made.json()["spec_digest"] == plan["spec_digest"] == digest_of(RunSpec.model_validate(plan["spec"]))


async def test_a_registered_run_is_planned_by_its_name(api: Served) -> None:
    answer = await api.http.post("/runs/plan", json={"run": "simulated-instant", "priority": 5})
    assert answer.json()["command"] == "vlmhyperbench run simulated-instant --priority 5"


async def test_a_manifest_of_the_whole_dataset_tells_the_samples_of_every_limit(api: Served) -> None:
    run = {**RUN, "dataset": {"name": DATASET, "seed": 4711}}
    spec = RunSpec.model_validate((await _plan(api, run=run))["spec"])
    whole = spec.model_copy(update={"dataset": spec.dataset.model_copy(update={"limit": None})})
    async with api.database.transaction() as session:
        await manifests.add(
            session,
            manifest_id="a" * 64,
            dataset_digest=dataset_digest(whole),
            storage_key="key",
            size_bytes=1,
            samples=12,
            unreadable=0,
            group_columns=[],
        )
    assert (await _plan(api, run=run))["samples"] == {
        "count": 12,
        "basis": "manifest",
        "note": "its dataset was read before",
    }
    fewer = await _plan(api, run={**run, "limit": 5})
    assert (fewer["samples"]["count"], fewer["samples"]["basis"]) == (5, "manifest")


async def test_a_run_without_limit_and_manifest_has_an_unknown_number_of_samples(api: Served) -> None:
    dataset = {"name": DATASET, "seed": 4712}
    plan = await _plan(api, run={"target": RUN["target"], "task": RUN["task"], "dataset": dataset})
    assert (plan["samples"]["count"], plan["samples"]["basis"]) == (None, "unknown")
    assert [item["count"] for item in plan["requests"] if item["kind"] == "answers"] == [None]


@pytest.mark.parametrize("limit", [10**12, 2**53])
async def test_a_limit_far_above_every_dataset_is_planned_at_once(api: Served, limit: int) -> None:
    plan = await _plan(api, run={**RUN, "limit": limit, "limits": {"shard_size": 1}})
    assert (plan["samples"]["count"], plan["samples"]["basis"]) == (limit, "limit")


async def test_the_memory_of_each_device_is_compared_with_the_measured_peak(api: Served) -> None:
    plan = await _plan(api)
    assert plan["memory"]["devices"] == []
    target = RunSpec.model_validate(plan["spec"]).target_digest
    async with api.database.transaction() as session:
        await add_worker(session)
        await memory.write_peak(session, target, "CPU", 2**30)
    plan = await _plan(api)
    (verdict,) = plan["memory"]["devices"]
    assert (verdict["fit"], verdict["memory_bytes"], verdict["target"]) == ("too_small", 1, "simulated-instant")
    assert verdict["need_bytes"] > 2**30
    assert "1.0 GiB" in verdict["basis"]
    assert plan["memory"]["refused"] is not None
    assert plan["time"]["expected_s"] is None


async def test_every_error_is_listed_at_its_field_with_the_nearest_name(api: Served, wording: Wording) -> None:
    run = {"target": {"model": "simulated-instnat"}, "task": "document-q", "limit": 0, "metrics": ["nosuch"]}
    shape = await api.http.post("/runs/plan", json={"run": run})
    assert (shape.status_code, [item["field"] for item in shape.json()["errors"]]) == (422, ["body.run.limit"])
    names = await api.http.post("/runs/plan", json={"run": {**run, "limit": 1}})
    assert names.status_code == 422
    errors = {item["field"]: item for item in names.json()["errors"]}
    assert set(errors) == {"target.model", "task", "metrics.0"}
    assert "simulated-instant" in errors["target.model"]["cure"]
    for item in errors.values():
        wording(f"{item['message']} {item['cure']}")


async def test_an_unknown_registered_run_is_wrong_input_and_not_a_missing_address(api: Served) -> None:
    answer = await api.http.post("/runs/plan", json={"run": "simulated-instnat"})
    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_name")


async def test_an_endpoint_on_an_address_that_is_not_public_is_planned_with_a_warning(api: Served) -> None:
    def run(host: str) -> dict[str, Any]:
        return {**RUN, "target": {"endpoint": f"http://{host}/v1", "model_name": "m"}}

    for host in ("10.0.0.8:8000", "169.254.169.254", "[::1]:8000"):
        plan = await _plan(api, run=run(host))
        assert len(plan["warnings"]) == 1, host
        assert plan["memory"]["devices"] == []
    assert (await _plan(api, run=run("models.example.org")))["warnings"] != plan["warnings"]
    refused = await api.http.post("/runs/plan", json={"run": run("user:pass@10.0.0.8")})
    assert [item["field"] for item in refused.json()["errors"]] == ["target.endpoint"]


async def test_names_with_markup_and_other_scripts_are_kept_and_hidden_characters_refused(api: Served) -> None:
    name = "<b>run</b> שלום 😀"
    plan = await _plan(api, name=name)
    assert plan["name"] == name
    assert plan["command"].endswith(f"--name '{name}'")
    refused = await api.http.post("/runs/plan", json={"run": RUN, "name": "a\u202eb"})
    assert [item["field"] for item in refused.json()["errors"]] == ["body.name"]


async def test_a_price_by_the_hour_needs_a_time_and_a_price_by_the_token_an_earlier_run(api: Served) -> None:
    def target(**prices: float) -> dict[str, Any]:
        written = {**prices, "source": "invoice", "date": "2026-01-31"}
        return {**RUN, "target": {"model": "simulated-instant", "prices": written}}

    by_hour = (await _plan(api, run=target(per_hour=2.5)))["cost"]
    assert (by_hour["total"], by_hour["currency"]) == (None, "USD")
    assert "2.5 USD per hour" in by_hour["prices"]
    by_token = (await _plan(api, run=target(prompt_per_million=1, completion_per_million=2)))["cost"]
    assert (by_token["total"], by_token["prices"] is None) == (None, False)


async def test_a_plan_needs_the_right_to_read_runs(api: Served) -> None:
    key = await api.add_key("worker:read")
    answer = await api.http.post("/runs/plan", json={"run": RUN}, headers={"X-API-Key": key})
    assert answer.status_code == 403


async def test_the_schema_of_a_kind_describes_its_fields(api: Served) -> None:
    schema = (await api.http.get("/registry/schemas/runs")).json()
    assert {"target", "task", "limit", "metrics", "decoding", "stop", "reports"} <= set(schema["properties"])
    assert schema["properties"]["limit"]["description"].startswith("Maximum number of samples")
    missing = await api.http.get("/registry/schemas/run")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    assert "runs" in missing.json()["cure"]


async def test_yaml_becomes_the_entry_that_was_written(api: Served) -> None:
    yaml = "target: {model: simulated-instant}\ntask: document-qa\nlimit: 5\ndescription: 'שלום <b>'\n"
    parsed = await api.http.post("/registry/runs/parse", json={"yaml": yaml})
    assert parsed.json() == {
        "kind": "runs",
        "entry": {
            "target": {"model": "simulated-instant"},
            "task": "document-qa",
            "limit": 5,
            "description": "שלום <b>",
        },
    }


@pytest.mark.parametrize(
    ("yaml", "lines", "fields"),
    [
        ("a: &a {model: m}\ntarget: *a\n", [2], [None]),
        ("target: {model: m}\ntask: document-qa\nlimit: 0\nlimt: 3\n", [3, 4], ["limit", "limt"]),
        ("target: [\n", [2], [None]),
        ("", [1], [None]),
        ("!!python/object:os.system {}\n", [1], [None]),
    ],
    ids=["alias", "fields", "broken", "empty", "tag"],
)
async def test_wrong_yaml_is_refused_with_lines_and_fields(
    api: Served, yaml: str, lines: list[int], fields: list[str | None]
) -> None:
    answer = await api.http.post("/registry/runs/parse", json={"yaml": yaml})
    assert answer.status_code == 422
    errors = answer.json()["errors"]
    assert ([item["line"] for item in errors], [item["field"] for item in errors]) == (lines, fields)


async def test_yaml_of_a_megabyte_is_refused_before_it_is_read(api: Served) -> None:
    large = await api.http.post("/registry/runs/parse", json={"yaml": "a" * (MAX_PASTED + 1)})
    assert (large.status_code, large.json()["errors"][0]["field"]) == (422, "body.yaml")
    larger = await api.http.post("/registry/runs/parse", json={"yaml": "a: b\n" * 250_000})
    assert (larger.status_code, larger.json()["code"]) == (413, "too_large")


async def test_the_client_plans_reads_schemas_and_parses(api: Served) -> None:
    async with AsyncClient(api.url, api.key) as client:
        assert (await client.runs.plan(RUN, name="by the client")).name == "by the client"
        assert "properties" in await client.schema("runs")
        assert (await client.parse_entry("runs", "target: {model: m}\ntask: t\n")).entry["task"] == "t"


async def test_a_run_is_written_out_as_the_entry_that_submits_it_again(api: Served) -> None:
    made = (await api.http.post("/runs", json={"run": {**RUN, "decoding": {"max_tokens": 9}}})).json()
    entry = (await api.http.get(f"/runs/{made['id']}/entry")).json()["entry"]
    assert entry["decoding"] == {"max_tokens": 9}
    again = await api.http.post("/runs/plan", json={"run": entry})
    assert again.json()["spec_digest"] == made["spec_digest"]
    missing = await api.http.get(f"/runs/{uuid4()}/entry")
    assert missing.status_code == 404
