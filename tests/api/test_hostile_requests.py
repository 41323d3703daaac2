"""Requests that nobody sends by mistake: bombs, towers, ten thousand filters, rubbish in cursors, tags and ranges."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.api.conftest import Served
from tests.api.test_files_and_workers import _add_file, _run
from tests.support.wording import Wording
from vlmhyperbench_api.openapi import description

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
JSON = {"Content-Type": "application/json"}
YAML = {"Content-Type": "application/yaml"}
TALL = 100_000
TOWERS = {
    "arrays": b"[" * TALL + b"]" * TALL,
    "objects": b'{"a":' * TALL + b"1" + b"}" * TALL,
    "an array that is a value": b'{"run": ' + b"[" * TALL + b"]" * TALL + b"}",
    "without an end": b"[" * TALL,
}
WITH_BODIES = ("/runs", "/runs/plan", "/experiments", "/loads", "/pipelines/check", "/registry/tasks", "/exports")


def _is_problem(answer: httpx2.Response, status: int) -> bool:
    problem = answer.json()
    return answer.status_code == status and bool(problem["code"]) and bool(problem["message"])


@pytest.mark.parametrize("path", ["/runs", "/answers"])
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "GZIP", "gzip, gzip", "x" * 5000])
async def test_a_packed_body_is_refused_and_never_unpacked(api: Served, path: str, coding: str) -> None:
    bomb = gzip.compress(b" " * 50 * MIB) if "gzip" in coding.lower() else zlib.compress(b" " * 50 * MIB)
    answer = await api.http.post(path, content=bomb, headers={**JSON, "Content-Encoding": coding})
    assert _is_problem(answer, 415), answer.text
    assert "Content-Encoding" in answer.json()["cure"]
    assert len(answer.content) < 1000


async def test_a_body_that_says_it_is_not_packed_is_read(api: Served) -> None:
    headers = {**JSON, "Content-Encoding": "identity"}
    answer = await api.http.post("/runs", content=b'{"run": "simulated-instant"}', headers=headers)
    assert answer.status_code == 201


@pytest.mark.parametrize("path", WITH_BODIES)
@pytest.mark.parametrize("tower", TOWERS)
async def test_a_tower_of_a_hundred_thousand_levels_is_refused(api: Served, path: str, tower: str) -> None:
    answer = await api.http.post(path, content=TOWERS[tower], headers=JSON)
    assert _is_problem(answer, 422), answer.text
    assert len(answer.content) < 10_000


@pytest.mark.parametrize("text", [b"a: " + b"[" * TALL, b"[" * TALL + b"]" * TALL, b"&a [*a, *a]", b"a: &a [*a]"])
async def test_a_tower_of_yaml_and_one_of_aliases_are_refused(api: Served, text: bytes) -> None:
    assert _is_problem(await api.http.post("/tasks", content=text, headers=YAML), 422)
    parsed = await api.http.post("/registry/runs/parse", json={"yaml": text.decode()})
    assert _is_problem(parsed, 422)


async def test_a_tower_on_the_live_feed_ends_the_connection(api: Served) -> None:
    async with connect(api.live_url, additional_headers={"X-API-Key": api.key}, proxy=None) as socket:
        await socket.send("[" * 60_000)
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4400


@pytest.mark.parametrize("path", ["/runs/rows", "/points", "/runs/{run}/samples"])
async def test_more_filters_than_a_query_has_are_refused_by_name(api: Served, path: str) -> None:
    run_id = await _run(api)
    address = path.format(run=run_id)
    params: dict[str, Any] = {"where": ["task=x"] * 21}
    if path == "/points":
        params |= {"x": "latency_p50_ms", "y": "latency_p99_ms"}
    answer = await api.http.get(address, params=params)
    assert _is_problem(answer, 422), answer.text
    assert any(error["field"].startswith("query.where") for error in answer.json()["errors"])


async def test_an_address_with_thousands_of_filters_is_refused_and_the_api_goes_on(api: Served) -> None:
    answer = await api.http.get("/runs/rows", params={"where": [f"task=task-{no}" for no in range(2_500)]})
    assert answer.status_code in {400, 414, 422, 431}
    assert (await api.http.get("/runs/rows")).status_code == 200


def _of_lists() -> list[str]:
    """Every address that is read by pages."""
    paths = json.loads(description())["paths"]
    return sorted(
        path.removeprefix("/api/v1")
        for path, methods in paths.items()
        if any(parameter.get("name") == "cursor" for parameter in methods.get("get", {}).get("parameters", []))
    )


def _encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


RUBBISH = (
    "AAAA",
    "====",
    "x" * 500,
    _encoded({}),
    _encoded([]),
    _encoded(None),
    _encoded({"at": "never", "id": "1"}),
    _encoded({"value": {"a": 1}, "id": str(uuid4())}),
    base64.urlsafe_b64encode(b"[" * 300).decode(),
)


@pytest.mark.parametrize("path", _of_lists())
async def test_a_cursor_that_no_list_gave_is_refused_by_every_list(api: Served, path: str) -> None:
    run_id = await _run(api)
    needed = {"run_id": run_id} if path in {"/artifacts", "/results"} else {}
    for cursor in RUBBISH:
        answer = await api.http.get(path.format(run_id=run_id), params={**needed, "cursor": cursor})
        assert _is_problem(answer, 422), (cursor, answer.text)
        assert "cursor" in answer.text


TAGS = ("rubbish", '"', 'W/"', "W/W/W/", '"a", ' * 900 + '"a"', '""', 'W/"\xff"', "*, *", ",,,,")


@pytest.mark.parametrize("tag", TAGS)
async def test_a_tag_that_no_answer_had_gets_the_whole_body(api: Served, tag: str) -> None:
    answer = await api.http.get("/tasks", headers={"If-None-Match": tag.encode("latin-1")})
    assert answer.status_code == (304 if "*" in tag else 200)


@pytest.mark.parametrize("tag", ["rubbish", '"999-"', '"-"', "W/", '"1', "1" * 201, "\xff"])
async def test_a_change_with_a_tag_that_no_version_had_changes_nothing(api: Served, tag: str) -> None:
    name = f"tagged-{uuid4().hex[:8]}"
    headers = {"X-API-Key": await api.add_key(project=name)}
    task = {"name": name, "dataset": "synthetic-questions", "prompt": "document-qa", "metrics": ["exact_match"]}
    assert (await api.http.post("/tasks", json=task, headers=headers)).status_code == 201
    given = {**headers, "If-Match": tag.encode("latin-1")}
    answer = await api.http.patch(f"/tasks/{name}", json={"description": "x"}, headers=given)
    assert _is_problem(answer, 422 if len(tag) > 200 else 412), answer.text
    assert (await api.http.get(f"/tasks/{name}", headers=headers)).json()["revision"] == 1


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ("bytes=1000-", 416),
        ("bytes=-0", 416),
        ("bytes=9-1", 400),
        ("bytes=x-y", 400),
        ("rubbish", 400),
        ("bytes=" + ",".join(["0-"] * 5000), 400),
    ],
)
async def test_a_range_beyond_a_file_is_refused(api: Served, given: str, status: int) -> None:
    file = await _add_file(api, await _run(api), "report.html", b"<p>report</p>")
    answer = await api.http.get(f"/artifacts/{file}/content", headers={"Range": given})
    assert answer.status_code in {status, 200}, answer.text
    assert len(answer.content) < 2000


async def test_the_error_of_a_packed_body_names_what_to_send(api: Served, wording: Wording) -> None:
    answer = await api.http.post("/runs", content=b"x", headers={**JSON, "Content-Encoding": "gzip"})
    wording(f"{answer.json()['message']} {answer.json()['cure']}")
