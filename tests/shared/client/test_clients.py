"""Calls of both clients, their errors, and the connection they use."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import httpx2
import pytest

from tests.support.wording import Wording
from vlmhyperbench.client import AsyncClient, Client, calls
from vlmhyperbench.client.connection import resolve
from vlmhyperbench.client.refusals import RefusedInput
from vlmhyperbench.errors import Conflict, Denied, InvalidInput, NotFound, Unavailable, VlmHyperBenchError
from vlmhyperbench.local.supervisor.home import Home

pytestmark = pytest.mark.anyio
KEY = "k"
URL = "http://127.0.0.1:1"
RUN_ID = "00000000-0000-4000-8000-000000000001"
EXPERIMENT = {
    "id": RUN_ID,
    "name": "e",
    "state": "OPEN",
    "is_cancelling": False,
    "run_states": {},
    "event_seq": 1,
    "created_by": "t",
    "created_at": "2026-01-01T00:00:00Z",
    "finished_at": None,
    "runs": [],
}


def _client(handler: httpx2.MockTransport) -> Client:
    return Client(URL, KEY, transport=handler)


def test_a_call_sends_the_key_and_parses_the_response() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        assert request.headers["X-API-Key"] == KEY
        assert request.url.path == f"/api/v1/experiments/{RUN_ID}"
        return httpx2.Response(200, json={**EXPERIMENT, "a_field_of_the_future": 1})

    with _client(httpx2.MockTransport(answer)) as client:
        assert client.experiments.get(RUN_ID).id == UUID(RUN_ID)


async def test_both_clients_have_the_same_calls() -> None:
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, json=EXPERIMENT))
    async with AsyncClient(URL, KEY, transport=transport) as client:
        assert (await client.experiments.get(RUN_ID)).name == "e"
    for blocking, asynchronous in ((Client, AsyncClient),):
        public = {name for name in vars(blocking.__mro__[1]) if not name.startswith("_")}
        assert public == {name for name in vars(asynchronous.__mro__[1]) if not name.startswith("_")}


def test_all_attempts_of_a_submission_have_the_same_idempotency_key() -> None:
    keys: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        keys.append(request.headers["Idempotency-Key"])
        if len(keys) < 3:
            raise httpx2.ConnectError("not yet")
        assert json.loads(request.content) == {"experiment": "demo", "name": None, "priority": 0}
        return httpx2.Response(201, json=EXPERIMENT)

    with _client(httpx2.MockTransport(answer)) as client:
        client.experiments.create("demo")
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_an_api_that_does_not_answer_is_unavailable_with_a_cure() -> None:
    def answer(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    with _client(httpx2.MockTransport(answer)) as client, pytest.raises(Unavailable, match="vlmhyperbench up"):
        client.health()


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, Denied), (403, Denied), (404, NotFound), (409, Conflict), (413, InvalidInput), (503, Unavailable)],
)
def test_a_refusal_becomes_an_error_of_the_error_tree(status: int, kind: type[VlmHyperBenchError]) -> None:
    problem = {"title": "t", "status": status, "code": "c", "message": "m", "cure": "x"}
    with pytest.raises(kind) as refused:
        calls.get_run(RUN_ID).answer(status, json.dumps(problem).encode())
    assert (refused.value.code, refused.value.message, refused.value.cure) == ("c", "m", "x")


def test_refused_input_lists_every_error_with_its_location() -> None:
    item = {"message": "m", "field": "run.task", "file": "a.yaml", "line": 3}
    problem = {"title": "t", "status": 422, "code": "c", "message": "m", "errors": [item]}
    with pytest.raises(RefusedInput) as refused:
        calls.get_run(RUN_ID).answer(422, json.dumps(problem).encode())
    assert [(item.field, item.file, item.line) for item in refused.value.errors] == [("run.task", "a.yaml", 3)]


def test_a_response_without_problem_json_is_described_by_its_status() -> None:
    with pytest.raises(Unavailable, match="502"):
        calls.get_run(RUN_ID).answer(502, b"<html>")


def test_a_malformed_id_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(InvalidInput, match="passwd"):
        calls.get_run("../../etc/passwd")


def test_the_connection_comes_from_the_stacks_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    for name in ("VLMHB_API_URL", "VLMHB_API_KEY", "VLMHB_API_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    home = Home(tmp_path)
    with pytest.raises(Unavailable) as refused:
        resolve(home=home)
    assert refused.value.code == "no_stack"
    wording(refused.value)
    home.run.mkdir()
    home.settings_file.write_text('{"api_host": "127.0.0.1", "api_port": 5}')
    with pytest.raises(Unavailable) as refused:
        resolve(home=home)
    assert refused.value.code == "no_key"
    wording(refused.value)
    home.api_key_file.write_text("secret\n")
    connection = resolve(home=home)
    assert (connection.url, connection.api_key, connection.live_url) == (
        "http://127.0.0.1:5",
        "secret",
        "ws://127.0.0.1:5/api/v1/live",
    )
    assert "secret" not in repr(connection)


def test_the_environment_names_another_api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text("from-file")
    monkeypatch.setenv("VLMHB_API_URL", "https://bench.example/base/")
    monkeypatch.setenv("VLMHB_API_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.delenv("VLMHB_API_KEY", raising=False)
    connection = resolve(home=Home(tmp_path))
    assert (connection.url, connection.api_key, connection.is_loopback) == (
        "https://bench.example/base",
        "from-file",
        False,
    )
    assert connection.live_url == "wss://bench.example/base/api/v1/live"


@pytest.mark.parametrize("url", ["ftp://x", "nonsense", "http://"])
def test_a_malformed_address_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        resolve(url, "k", home=Home(tmp_path))
