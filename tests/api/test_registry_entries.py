"""Tasks and other registry entries that are made, changed and archived through the API."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import httpx2
import pytest

from tests.api.conftest import Served, serving
from tests.support.wording import Wording
from vlmhyperbench.db.engine import Database
from vlmhyperbench.settings import Settings

pytestmark = pytest.mark.anyio

TASK: dict[str, Any] = {
    "name": "mine",
    "dataset": "synthetic-questions",
    "prompt": "document-qa",
    "metrics": ["exact_match"],
}


@pytest.fixture(autouse=True)
async def project(api: Served) -> str:
    """Make the test's requests those of a project of its own: the tests of a session share a database."""
    name = f"p{secrets.token_hex(6)}"
    api.http.headers["X-API-Key"] = await api.add_key(project=name)
    return name


async def _make(api: Served, **values: object) -> httpx2.Response:
    return await api.http.post("/tasks", json={**TASK, **values})


async def test_a_task_is_made_and_used_by_a_run_and_keeps_its_pinned_spec(api: Served) -> None:
    made = await _make(api)
    assert made.status_code == 201, made.text
    body = made.json()
    assert (body["origin"], body["revision"], body["file"]) == ("database", 1, None)
    assert body["entry"]["scenarios"] == ["offline"]
    run = await api.http.post("/runs", json={"run": {"target": {"model": "simulated-instant"}, "task": "mine"}})
    assert run.status_code == 201, run.text
    changed = await api.http.put("/tasks/mine", json={**TASK, "metrics": ["anls"]})
    assert changed.status_code == 200, changed.text
    assert changed.json()["revision"] == 2
    spec = (await api.http.get(f"/runs/{run.json()['id']}")).json()["spec"]
    assert [metric["name"] for metric in spec["metrics"]] == ["exact_match"]
    origins = (await api.http.get(f"/runs/{run.json()['id']}/manifest")).json()
    assert "database/tasks/mine@1" in str(origins)


async def test_the_same_body_answers_the_same_task_and_another_is_refused(api: Served) -> None:
    first, again = await _make(api), await _make(api)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json()["revision"] == first.json()["revision"] == 1
    other = await _make(api, description="another")
    assert (other.status_code, other.json()["code"]) == (409, "name_taken")


async def test_two_people_who_edit_one_task_do_not_overwrite_each_other(api: Served) -> None:
    tag = (await _make(api)).headers["etag"]
    assert (await api.http.get("/tasks/mine")).headers["etag"] == tag
    first = await api.http.patch("/tasks/mine", json={"description": "a"}, headers={"If-Match": tag})
    second = await api.http.patch("/tasks/mine", json={"description": "b"}, headers={"If-Match": tag})
    assert (first.status_code, second.status_code) == (200, 412)
    assert second.json()["code"] == "changed"
    weak = f"W/{first.headers['etag']}"
    assert (await api.http.patch("/tasks/mine", json={"category": "c"}, headers={"If-Match": weak})).status_code == 200


async def test_of_writers_at_the_same_time_each_revision_has_one(api: Served) -> None:
    await _make(api)
    sent = [api.http.patch("/tasks/mine", json={"description": str(no)}) for no in range(4)]
    statuses = [answer.status_code for answer in await asyncio.gather(*sent)]
    assert set(statuses) <= {200, 412}
    versions = (await api.http.get("/tasks/mine/versions")).json()["items"]
    assert [item["revision"] for item in versions] == list(range(1 + statuses.count(200), 0, -1))


async def test_an_archived_task_can_be_read_and_says_that_runs_cannot_use_it(api: Served, wording: Wording) -> None:
    await _make(api)
    archived = await api.http.delete("/tasks/mine")
    assert (archived.json()["is_archived"], archived.json()["revision"]) == (True, 2)
    shown = (await api.http.get("/tasks/mine")).json()
    assert shown["is_archived"]
    assert shown["entry"]["dataset"] == "synthetic-questions"
    run = await api.http.post("/runs", json={"run": {"target": {"model": "simulated-instant"}, "task": "mine"}})
    assert run.status_code == 422
    wording(run.json()["message"])
    names = [item["name"] for item in (await api.http.get("/tasks")).json()["items"]]
    assert "mine" not in names
    listed = (await api.http.get("/tasks?archived=true&q=mine")).json()["items"]
    assert [(item["name"], item["is_archived"]) for item in listed] == [("mine", True)]
    back = await api.http.put("/tasks/mine", json=TASK)
    assert (back.json()["is_archived"], back.json()["revision"]) == (False, 3)


async def test_every_error_is_named_with_its_field_or_line(api: Served) -> None:
    bad = {"name": "mine", "dataset": "nowhere", "prompt": "nothing", "metrics": ["exact_match", "nope"]}
    answer = await api.http.post("/tasks", json=bad)
    assert answer.status_code == 422
    assert sorted(item["field"] for item in answer.json()["errors"]) == ["dataset", "metrics.1", "prompt"]
    text = "name: mine\ndataset: nowhere\nprompt: document-qa\nmetrics: [exact_match]\n"
    answer = await api.http.post("/tasks", content=text, headers={"Content-Type": "application/yaml"})
    (error,) = answer.json()["errors"]
    assert (answer.status_code, error["file"], error["line"], error["field"]) == (422, "body", 2, "dataset")


@pytest.mark.parametrize(
    ("text", "kind", "status"),
    [
        ("name: &a mine\nprompt: *a\n", "application/yaml", 422),
        ("name: mine\nname: other\n", "application/yaml", 422),
        ("name: !!python/object:os.system x\n", "application/yaml", 422),
        ('{"name": "a", "name": "b"}', "application/json", 422),
        ("[]", "application/json", 422),
        ("{}", "application/json", 422),
        ('{"name": "../etc"}', "application/json", 422),
        ("name: a", "text/plain", 415),
        ("name: " + "a" * (1024 * 1024 + 1), "application/yaml", 413),
    ],
)
async def test_a_bad_body_is_refused(api: Served, text: str, kind: str, status: int) -> None:
    answer = await api.http.post("/tasks", content=text, headers={"Content-Type": kind})
    assert answer.status_code == status, answer.text


async def test_yaml_keeps_its_comments_and_every_version_can_be_read(api: Served) -> None:
    text = "# for receipts\nname: mine\ndataset: synthetic-questions\nprompt: document-qa\nmetrics: [exact_match]\n"
    await api.http.post("/tasks", content=text, headers={"Content-Type": "application/yaml"})
    await api.http.patch("/tasks/mine", json={"description": "new", "category": None})
    assert (await api.http.get("/tasks/mine/versions/1")).json()["text"] == text
    assert (await api.http.get("/tasks/mine/versions/2")).json()["description"] == "new"
    assert (await api.http.get("/tasks/mine/versions/3")).status_code == 404


async def test_a_name_of_a_file_is_refused_and_a_file_of_the_user_replaces_the_entry(
    api: Served, settings: Settings
) -> None:
    taken = await api.http.post("/tasks", json={**TASK, "name": "synthetic-questions"})
    assert (taken.status_code, taken.json()["code"]) == (409, "entry_of_file")
    assert (await api.http.delete("/tasks/synthetic-questions")).json()["code"] == "entry_of_file"
    await _make(api)
    folder = settings.home / "registries" / "tasks"
    folder.mkdir(parents=True)
    own = "description: of a file\ndataset: synthetic-questions\nprompt: document-qa\nmetrics: [anls]\n"
    (folder / "mine.yaml").write_text(own)
    shown = (await api.http.get("/tasks/mine")).json()
    assert shown["overridden_by"] == str(folder / "mine.yaml")
    (listed,) = (await api.http.get("/tasks?q=mine")).json()["items"]
    assert (listed["origin"], listed["description"]) == ("file", "of a file")


async def test_tasks_are_found_by_dataset_metric_and_words(api: Served) -> None:
    await _make(api, description="Reads totals", category="receipts")
    found = (await api.http.get("/tasks?dataset=synthetic-questions&metric=exact_match&category=receipts")).json()
    assert [item["name"] for item in found["items"]] == ["mine"]
    assert (await api.http.get("/tasks?category=none")).json()["items"] == []
    assert [item["name"] for item in (await api.http.get("/tasks?q=totals reads")).json()["items"]] == ["mine"]


async def test_any_kind_of_entry_is_made_under_registry(api: Served) -> None:
    prompt = {"name": "short", "user_prompt": "Answer in one word: {{ question }}"}
    assert (await api.http.post("/registry/prompts", json=prompt)).status_code == 201
    made = await _make(api, prompt="short")
    assert made.status_code == 201, made.text
    listed = (await api.http.get("/registry?kind=prompts&q=short")).json()["items"]
    assert ("short", "database", 1) in [(item["name"], item["origin"], item["revision"]) for item in listed]
    await api.http.delete("/registry/prompts/short")
    task = (await api.http.get("/tasks/mine")).json()
    assert "archived" in task["problem"]
    assert (await api.http.post("/registry/nothing", json=prompt)).status_code == 404


async def test_entries_are_of_one_project_and_need_the_scope(api: Served, project: str) -> None:
    await _make(api)
    other = {"X-API-Key": await api.add_key(project="other")}
    assert (await api.http.get("/tasks/mine", headers=other)).status_code == 404
    reader = {"X-API-Key": await api.add_key("registry:read", project=project)}
    assert (await api.http.get("/tasks/mine", headers=reader)).status_code == 200
    for method, path in (
        ("POST", "/tasks"),
        ("PUT", "/tasks/mine"),
        ("PATCH", "/tasks/mine"),
        ("DELETE", "/tasks/mine"),
    ):
        assert (await api.http.request(method, path, json=TASK, headers=reader)).status_code == 403


async def test_another_process_of_the_api_sees_the_new_version(
    api: Served, settings: Settings, database: Database
) -> None:
    async with serving(settings, database) as second:
        second.http.headers["X-API-Key"] = api.http.headers["X-API-Key"]
        assert (await second.http.get("/tasks/mine")).status_code == 404
        await _make(api)
        assert (await second.http.get("/tasks/mine")).json()["revision"] == 1
        await api.http.patch("/tasks/mine", json={"description": "new"})
        assert (await second.http.get("/tasks?q=new")).json()["items"][0]["revision"] == 2
