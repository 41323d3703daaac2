"""Pipelines over REST: which can start, what is wrong in a draft, what one question to it would take."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from tests.api.conftest import Served
from vlmhyperbench.client import AsyncClient
from vlmhyperbench.wire.pipelines import PipelineDraft

pytestmark = pytest.mark.anyio

STAGES: list[dict[str, Any]] = [
    {
        "id": "read",
        "type": "multi",
        "models": ["simulated-instant", "simulated"],
        "aggregation": {"type": "vote"},
    },
    {"id": "answer", "type": "single", "model": "simulated-instant", "input_from": "read"},
]


@pytest.fixture(autouse=True)
async def project(api: Served) -> str:
    """Make the test's requests those of a project of its own: the tests of a session share a database."""
    name = f"p{secrets.token_hex(6)}"
    api.http.headers["X-API-Key"] = await api.add_key(project=name)
    return name


async def _listed(api: Served) -> dict[str, dict[str, Any]]:
    answer = await api.http.get("/pipelines")
    assert answer.status_code == 200, answer.text
    return {item["name"]: item for item in answer.json()["items"]}


async def test_pipelines_are_listed_with_their_stages_and_every_reason_why_one_is_blocked(api: Served) -> None:
    before = await _listed(api)
    assert "base" not in before
    assert before["readers-synthesis"]["stages"] == [
        {
            "id": "read",
            "type": "multi",
            "models": ["tiny-doc-vlm-0.2", "tiny-doc-vlm"],
            "input_from": [],
            "aggregation": "synthesis",
            "merger": "tiny-doc-vlm-0.2",
        }
    ]
    assert before["readers-synthesis"]["blocked"] == []
    stages = [{"id": "read", "type": "single", "model": "gemma-3-4b-gguf"}]
    made = await api.http.post(
        "/registry/pipelines", json={"name": "base", "stages": stages, "requires": ["smolvlm-500m-gguf"]}
    )
    assert made.status_code == 201, made.text
    first, *_ = after = list((await _listed(api)).values())
    assert len(after) == len(before) + 1
    assert (first["name"], first["is_base"], first["origin"], len(first["blocked"])) == ("base", True, "database", 2)
    await api.http.delete("/registry/pipelines/base")
    assert "base" not in await _listed(api)


async def test_all_that_is_wrong_in_a_draft_is_told_at_its_stage(api: Served) -> None:
    wrong = [{"id": "read", "type": "multi", "models": ["simulated"]}, {**STAGES[1], "input_from": "later"}]
    answer = await api.http.post("/pipelines/check", json={"name": "not a name", "entry": {"stages": wrong}})
    assert answer.status_code == 200, answer.text
    assert [(problem["stage"], problem["field"]) for problem in answer.json()["problems"]] == [
        (None, "name"),
        (0, "stages.0"),
        (0, "stages.0"),
        (1, "stages.1.input_from"),
    ]
    fine = await api.http.post("/pipelines/check", json={"name": "fine", "entry": {"stages": STAGES}})
    assert fine.json() == {"problems": [], "blocked": [], "warnings": [], "doubts": []}


async def test_a_wrong_weight_of_a_draft_hides_no_other_mistake(api: Served) -> None:
    vote = {"type": "vote", "rule": "best", "quorum": 0, "ties": ["luck"]}
    models = [{"model": "simulated-instant", "weight": 0}, "simulate"]
    stages = [{**STAGES[0], "models": models, "aggregation": vote}, {**STAGES[1], "input_from": "later"}]
    answer = await api.http.post("/pipelines/check", json={"name": "draft", "entry": {"stages": stages}})
    assert answer.status_code == 200, answer.text
    assert {(problem["stage"], problem["field"]) for problem in answer.json()["problems"]} == {
        (0, "stages.0.models.0.weight"),
        (0, "stages.0.models.1"),
        (0, "stages.0.aggregation.rule"),
        (0, "stages.0.aggregation.quorum"),
        (0, "stages.0.aggregation.ties"),
        (1, "stages.1.input_from"),
    }
    assert len(answer.json()["problems"]) == 6


async def test_a_plan_names_each_step_and_what_was_never_measured(api: Served) -> None:
    answer = await api.http.post("/pipelines/plan", json={"entry": {"stages": STAGES}})
    assert answer.status_code == 200, answer.text
    plan = answer.json()
    assert [(step["stage"], step["model"], step["expected_s"]) for step in plan["steps"]] == [
        ("read", "simulated-instant", None),
        ("read", "simulated", None),
        ("answer", "simulated-instant", None),
    ]
    assert (plan["time"]["expected_s"], plan["memory"]["devices"]) == (None, [])
    refused = await api.http.post("/pipelines/plan", json={"entry": {"stages": STAGES[1:]}})
    assert (refused.status_code, refused.json()["code"]) == (422, "registry_errors")
    (error,) = refused.json()["errors"]
    assert (error["field"].startswith("stages.0"), error["message"].startswith("stage answer: ")) == (True, True)
    unknown = await api.http.post("/pipelines/plan", json={"entry": {"stages": [{**STAGES[1], "model": "nothing"}]}})
    assert unknown.json()["errors"]


async def test_a_plan_that_is_refused_while_it_is_pinned_names_the_stage(api: Served) -> None:
    many = [{"model": "simulated-instant", "generation": {"max_tokens": no}} for no in range(1, 301)]
    stages = [STAGES[0], {**STAGES[0], "id": "again", "input_from": "read", "models": many}]
    refused = await api.http.post("/pipelines/plan", json={"entry": {"stages": stages}})
    assert refused.status_code == 422, refused.text
    assert [error["message"].startswith("stage again: ") for error in refused.json()["errors"]] == [True]
    unfetched = [{"id": "read", "type": "single", "model": "gemma-3-4b-gguf"}]
    refused = await api.http.post("/pipelines/plan", json={"entry": {"stages": unfetched}})
    assert refused.status_code == 422, refused.text
    assert [error["message"].startswith("stage read: ") for error in refused.json()["errors"]] == [True]


async def test_the_client_lists_checks_and_plans_pipelines(api: Served) -> None:
    async with AsyncClient(api.url, api.http.headers["X-API-Key"]) as client:
        listed = (await client.pipelines.list()).items
        assert [each.name for each in listed] == [*await _listed(api)]
        check = await client.pipelines.check(PipelineDraft(name="x", entry={"stages": STAGES[1:]}))
        assert [problem.stage for problem in check.problems] == [0]
        plan = await client.pipelines.plan(PipelineDraft(entry={"stages": STAGES}))
        assert [step.model for step in plan.steps] == ["simulated-instant", "simulated", "simulated-instant"]
