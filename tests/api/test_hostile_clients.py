"""Hostile requests are refused with an error, and leave no traceback in the log."""

from __future__ import annotations

import base64
import json
import logging
import resource
from uuid import uuid4

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.api.conftest import Served
from vlmhyperbench.logs.clients import AcceptFailures, ClientMistakes, LostClients, raise_open_files

pytestmark = pytest.mark.anyio


def _has_traceback(caplog: pytest.LogCaptureFixture) -> bool:
    return any(record.exc_info for record in caplog.records)


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "[", "null", "http://other.example"])
async def test_an_origin_that_is_not_a_url_is_refused(
    api: Served, caplog: pytest.LogCaptureFixture, origin: str
) -> None:
    with pytest.raises(InvalidStatus) as raised:
        await connect(api.live_url, additional_headers={"X-API-Key": api.key, "Origin": origin}, proxy=None)
    assert raised.value.response.status_code == 403
    assert not _has_traceback(caplog)


@pytest.mark.parametrize("payload", [b"\xff\xfe", b"\xed\xa0\x80", b'{"subscribe": "\xc3"}'])
async def test_text_that_is_not_utf8_ends_the_connection_without_a_traceback(
    api: Served, caplog: pytest.LogCaptureFixture, payload: bytes
) -> None:
    async with connect(api.live_url, additional_headers={"X-API-Key": api.key}, proxy=None) as client:
        await client.send(payload, text=True)
        with pytest.raises(ConnectionClosed) as raised:
            await client.recv()
    assert raised.value.rcvd is not None
    assert raised.value.rcvd.code == 1007
    assert not _has_traceback(caplog)
    assert any(record.name == "uvicorn.error" and record.levelno == logging.WARNING for record in caplog.records)


async def test_a_key_in_the_query_of_a_websocket_is_not_logged(api: Served, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "uvicorn.error"):
        async with connect(f"{api.live_url}?api_key={api.key}", additional_headers={"X-API-Key": api.key}, proxy=None):
            pass
        with pytest.raises(InvalidStatus):
            await connect(f"{api.live_url}?api_key={api.key}", proxy=None)
    uvicorn = [record for record in caplog.records if record.name == "uvicorn.error"]
    addressed = [
        record for record in uvicorn if record.levelno == logging.INFO and "/api/v1/live" in record.getMessage()
    ]
    assert len(addressed) == 2, "the address itself is still logged"
    assert not any(api.key in record.getMessage() for record in uvicorn)


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "", "x" * 201, "a\nb"])
async def test_a_forged_cursor_of_workers_is_refused(api: Served, name: str) -> None:
    for forged in (json.dumps({"name": name, "id": str(uuid4())}), f'{{"name": "{name}", "id": "{uuid4()}"}}'):
        cursor = base64.urlsafe_b64encode(forged.encode("utf-8", "surrogatepass")).decode()
        answer = await api.http.get("/workers", params={"cursor": cursor})
        assert answer.status_code == 422, answer.text
        assert answer.json()["code"] == "invalid_input"


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", 1e18, -1e18, "2026-01-01"])
async def test_a_forged_instant_in_a_cursor_is_refused_or_read_and_never_a_failure(api: Served, at: object) -> None:
    cursor = base64.urlsafe_b64encode(json.dumps({"at": at, "id": str(uuid4())}).encode()).decode()
    for position in ("/runs", "/experiments", "/reports", "/artifacts?run_id=00000000-0000-4000-8000-000000000000"):
        answer = await api.http.get(position, params={"cursor": cursor})
        assert answer.status_code in {200, 404, 422}, answer.text


def test_connections_that_cannot_be_accepted_are_logged_rarely_and_without_a_traceback() -> None:
    now = [0.0]
    filtering = AcceptFailures(clock=lambda: now[0])

    def record(message: str) -> logging.LogRecord:
        error = OSError(24, "Too many files")
        return logging.LogRecord("asyncio", logging.ERROR, "", 0, message, None, (OSError, error, None))

    shown = record("socket.accept() out of system resource")
    assert filtering.filter(shown)
    assert (shown.exc_info, "Too many files" in shown.getMessage()) == (None, True)
    assert not filtering.filter(record("socket.accept() out of system resource"))
    now[0] = 11.0
    assert filtering.filter(record("socket.accept() out of system resource"))
    unrelated = record("Task exception was never retrieved")
    assert filtering.filter(unrelated)
    assert unrelated.exc_info is not None


def test_writes_to_a_client_that_has_left_are_not_logged() -> None:
    def is_logged(message: str) -> bool:
        return LostClients().filter(logging.LogRecord("asyncio", logging.WARNING, "", 0, message, None, None))

    assert not is_logged("socket.send() raised exception.")
    assert is_logged("Task was destroyed but it is pending!")


def test_other_tracebacks_of_a_server_are_kept() -> None:
    record = logging.LogRecord(
        "uvicorn.error", logging.ERROR, "", 0, "Exception", None, (ValueError, ValueError(), None)
    )
    assert ClientMistakes().filter(record)
    assert (record.exc_info is not None, record.levelno) == (True, logging.ERROR)


def test_a_server_opens_as_many_files_as_it_may() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(200, before[1]), before[1]))
    try:
        raise_open_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
