"""The same measurements over TLS; `loopback.pem` is a key for 127.0.0.1 that nobody trusts but these tests."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.loadgen.driving import chat_body, drive, read_request, whole

pytestmark = pytest.mark.anyio

CERTIFICATE = Path(__file__).with_name("loopback.pem")
LARGE = 5_000_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def serving_tls() -> AsyncIterator[tuple[str, list[int]]]:
    """Answer with as many letters as the request has bytes; also yields the connections that were made."""
    connections: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        try:
            while True:
                body = await read_request(reader)
                writer.write(whole("x" * len(body)))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/chat/completions", connections


async def test_large_requests_and_answers_come_whole_over_kept_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    bodies = [chat_body(), b"y" * LARGE, chat_body(), chat_body(), b"y" * LARGE, chat_body()]
    async with serving_tls() as (url, connections):
        driven = await drive(tmp_path, url, bodies=bodies, in_flight=2)
    assert [(row["status"], len(str(row["text"]))) for row in driven.rows] == [("ok", len(body)) for body in bodies]
    assert len(connections) == 2


async def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    async with serving_tls() as (url, _):
        driven = await drive(tmp_path, url, bodies=[chat_body()])
    assert driven.end.outcome == "failed"
    assert "CERTIFICATE_VERIFY_FAILED" in str(driven.end.error)


async def test_the_check_can_be_left_out(tmp_path: Path) -> None:
    async with serving_tls() as (url, _):
        driven = await drive(tmp_path, url, bodies=[chat_body()], verify=False)
    assert [row["status"] for row in driven.rows] == ["ok"]


async def test_it_is_said_that_tls_was_used_and_who_took_the_instants(tmp_path: Path) -> None:
    async with serving_tls() as (url, _):
        driven = await drive(tmp_path, url, bodies=[chat_body()], verify=False)
    assert (driven.end.transport, driven.end.instants) == ("tls", "process")
