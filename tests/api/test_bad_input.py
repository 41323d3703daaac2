from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from tests.api.conftest import Served, serving
from tests.support.wording import Wording
from vlmhyperbench.db.engine import Database
from vlmhyperbench.settings import Settings

pytestmark = pytest.mark.anyio
ENDPOINT = {"endpoint": "https://a.example", "model_name": "m"}


async def test_a_large_body_is_refused_by_its_announced_length(api: Served) -> None:
    answer = await api.http.post("/runs", content=b"x" * (1024 * 1024 + 1))
    assert answer.status_code == 413
    assert answer.json()["code"] == "too_large"


async def test_a_large_body_is_refused_while_it_streams_in(api: Served) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * 64 * 1024

    answer = await api.http.post("/runs", content=endless(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"[]", 422),
        (b'"text"', 422),
        (b"{", 422),
        (b'{"run": 1}', 422),
        (b'{"run": ""}', 422),
        (b'{"run": "simulated-instant", "extra": 1}', 422),
        (b'{"run": "simulated-instant", "priority": 1000}', 422),
        (b'{"run": "simulated-instant", "priority": 1e999}', 422),
        (b'{"run": "simulated-instant", "name": "\\u0000"}', 422),
        (b'{"run": "simulated-instant", "name": "\\ud800"}', 422),
        (b'{"run": "simulated-instant", "run": "simulated-instant"}', 422),
        (b'{"run": {"target": {"model": "simulated"}}}', 422),
        (b'{"run": {"target": {"model": "simulated"}, "task": "document-qa", "limits": {"shard_size": 0}}}', 422),
        (b"[" * 5000, 422),
    ],
)
async def test_a_bad_body_is_a_problem_and_never_a_failure(api: Served, body: bytes, status: int) -> None:
    answer = await api.http.post("/runs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["code"]
    assert problem["message"]


async def test_an_unknown_field_is_named(api: Served) -> None:
    problem = (await api.http.post("/runs", json={"run": "simulated-instant", "extra": 1})).json()
    assert [error["field"] for error in problem["errors"]] == ["body.extra"]


async def test_all_unknown_names_are_listed_at_once_with_similar_names(api: Served) -> None:
    entry = {"target": {"model": "simulatd"}, "task": "document-qq"}
    answer = await api.http.post("/runs", json={"run": entry})
    assert answer.status_code == 422
    errors = {error["field"]: error["cure"] for error in answer.json()["errors"]}
    assert "simulated" in errors["target.model"]
    assert "document-qa" in errors["task"]


async def test_an_unknown_run_entry_is_refused_with_similar_names(api: Served) -> None:
    answer = await api.http.post("/runs", json={"run": "simulated-instnt"})
    assert answer.status_code == 422
    assert answer.json()["code"] == "unknown_name"
    assert "simulated-instant" in answer.json()["cure"]


@pytest.mark.parametrize(
    "address",
    [
        "/runs/not-a-uuid",
        "/runs?limit=0",
        "/runs?limit=999999999999999999999999",
        "/runs?limit=many",
        "/runs?cursor=AAAA",
        "/runs?cursor=%00",
        "/runs?state=SLEEPING",
        "/results",
        "/results?run_id=1",
        "/results?run_id=00000000-0000-4000-8000-000000000000&doc_class=a%00b",
        "/registry/no-such-kind%00/x",
        "/artifacts?run_id=00000000-0000-4000-8000-000000000000&experiment_id=00000000-0000-4000-8000-000000000000",
    ],
)
async def test_a_bad_address_is_a_problem(api: Served, address: str) -> None:
    answer = await api.http.get(address)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("method", "address", "status"),
    [
        ("GET", "/nowhere", 404),
        ("DELETE", "/runs", 405),
        ("GET", "/runs/00000000-0000-4000-8000-000000000000", 404),
        ("GET", "/registry/no-such-kind/x", 404),
        ("GET", "/registry/models/no-such-model", 404),
        ("GET", "/reports/00000000-0000-4000-8000-000000000000", 404),
        ("GET", "/artifacts/00000000-0000-4000-8000-000000000000/content", 404),
    ],
)
async def test_an_unknown_resource_is_a_problem(api: Served, method: str, address: str, status: int) -> None:
    answer = await api.http.request(method, address)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("key", ["", "with space", "ä".encode().decode("latin-1"), "x" * 201])
async def test_a_malformed_idempotency_key_is_refused(api: Served, key: str) -> None:
    headers = {"Idempotency-Key": key.encode("latin-1")}
    answer = await api.http.post("/runs", json={"run": "simulated-instant"}, headers=headers)
    assert answer.status_code == 422


async def test_a_client_that_disconnects_during_its_body_is_not_an_error(
    api: Served, caplog: pytest.LogCaptureFixture
) -> None:
    head = (
        f"POST /api/v1/runs HTTP/1.1\r\nHost: x\r\nX-API-Key: {api.key}\r\nContent-Type: application/json\r\n"
        "Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n"
    )
    host, port = api.url.removeprefix("http://").split(":")
    for _ in range(3):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(head.encode())
        # The server sends this line when the route begins to read the body.
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"{")
        writer.close()
        await writer.wait_closed()
    assert (await api.http.get("/runs")).status_code == 200
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_an_unknown_field_of_an_entry_is_named_with_similar_fields(api: Served, wording: Wording) -> None:
    entry = {"target": {"model": "simulated"}, "task": "synthetic-questions", "limts": {}}
    problem = (await api.http.post("/runs", json={"run": entry})).json()
    (error,) = problem["errors"]
    assert error["field"] == "body.run.limts"
    wording(error["cure"])


async def test_a_body_with_another_content_type_is_refused(api: Served) -> None:
    answer = await api.http.post(
        "/runs", content=b'{"run": "simulated-instant"}', headers={"Content-Type": "text/plain"}
    )
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


async def test_a_very_long_integer_is_refused_with_a_short_message(api: Served) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await api.http.post("/runs", content=b'{"priority": ' + b"9" * 5000 + b"}", headers=headers)
    assert answer.status_code == 422
    assert answer.json()["message"] == f"The integer {'9' * 20}… is beyond 64 bits."


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31m", "a\u202eb"])
async def test_a_name_with_hidden_characters_is_refused(api: Served, name: str) -> None:
    problem = (await api.http.post("/runs", json={"run": "simulated-instant", "name": name})).json()
    assert [error["field"] for error in problem["errors"]] == ["body.name"]


async def test_the_error_of_an_unknown_address_names_the_list_of_addresses(api: Served) -> None:
    answer = await api.http.get("/nothing")
    assert answer.status_code == 404
    assert "docs/openapi.json" in answer.json()["cure"]


@pytest.mark.parametrize(
    "limit", ["1_0", "+10", " 10", "10 ", "10.0", "1e1", "\uff11\uff10", "\u0661\u0660", "0x10", "true"]
)
async def test_a_number_in_a_query_is_written_in_digits(api: Served, limit: str) -> None:
    answer = await api.http.get("/runs", params={"limit": limit})
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == ["query.limit"]
    assert all(error["cure"] for error in answer.json()["errors"])
    assert (await api.http.get("/runs", params={"limit": "10"})).status_code == 200


@pytest.mark.parametrize(
    ("choice", "field"),
    [
        ({"secrets": [f"s{no}" for no in range(10_000)]}, "secrets"),
        ({"decoding": {"stop": ["x"] * 10_000}}, "decoding.stop"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"response_format": {"type": "regex", "regex": "("}}, "response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": 5}}}}, "response_format"),
        ({"metrics": ["no-such"]}, "metrics.0"),
        ({"metrics": ["exact_match@no-such"]}, "metrics.0"),
        ({"metrics": ["exact_match", "exact_match"]}, "metrics.1"),
        ({"extractors": ["no_such"]}, "extractors.0"),
        ({"extractors": [{"name": "regex", "params": {"pattern": 5}}]}, "extractors.0"),
        ({"extractors": [{"name": "regex", "params": {"pattern": "("}}]}, "extractors.0"),
        ({"target": {"endpoint": "ftp://a", "model_name": "m"}}, "target.endpoint"),
        ({"target": {"endpoint": "http://a\\b", "model_name": "m"}}, "target.endpoint"),
        ({"target": {"endpoint": "https://a.example", "model_name": "m", "backend_class": ""}}, "target.backend_class"),
        (
            {"target": {"endpoint": "https://a.example", "model_name": "m", "backend_class": "../x"}},
            "target.backend_class",
        ),
        ({"target": {**ENDPOINT, "backend_class": "a..b"}}, "target.backend_class"),
        ({"target": {**ENDPOINT, "backend_class": "json:JSONDecoder"}}, "target.backend_class"),
        ({"target": {**ENDPOINT, "backend_class": "subprocess.Popen"}}, "target.backend_class"),
        ({"target": {**ENDPOINT, "backend_class": "no-such"}}, "target.backend_class"),
        ({"limits": {"tries": True}}, "limits.tries"),
    ],
)
async def test_input_that_would_fail_later_is_refused_with_its_field_and_a_cure(
    api: Served, choice: dict[str, object], field: str
) -> None:
    entry = {"target": {"model": "simulated"}, "task": "document-qa", **choice}
    answer = await api.http.post("/runs", json={"run": entry})
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    assert problem["cure"]
    assert [error["field"].removeprefix("body.run.") for error in problem["errors"]] == [field]
    assert all(error["message"] and error["cure"] for error in problem["errors"])


async def test_an_exclusion_that_excludes_nothing_is_named(api: Served) -> None:
    matrix = {"targets": [{"model": "simulated"}], "tasks": ["document-qa", "document-vqa"]}
    matched = {"target": "simulated", "task": "document-qa"}
    body = {"experiment": {"matrix": matrix, "exclude": [matched, {"target": "simulatd"}, {}]}}
    answer = await api.http.post("/experiments", json=body)
    assert answer.status_code == 422, answer.text
    assert {"exclude.1", "exclude.2"} <= {error["field"] for error in answer.json()["errors"]}
    assert "exclude.0" not in {error["field"] for error in answer.json()["errors"]}


async def test_an_adapter_is_accepted_if_the_settings_allow_it(settings: Settings, database: Database) -> None:
    run = {"target": {**ENDPOINT, "backend_class": "json:JSONDecoder"}, "task": "document-qa"}
    allowed = settings.model_copy(update={"allowed_adapters": frozenset({"JSON"})})
    async with serving(allowed, database) as api:
        assert (await api.http.post("/runs", json={"run": run})).status_code == 201
    async with serving(settings, database) as api:
        problem = (await api.http.post("/runs", json={"run": run})).json()
        assert "VLMHB_ALLOWED_ADAPTERS" in problem["cure"]
