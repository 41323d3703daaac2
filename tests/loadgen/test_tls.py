"""The same measurements over TLS.

`loopback.pem` and `expired.pem` are keys with certificates for 127.0.0.1 that only these tests trust; the second
certificate expired in 2001.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.loadgen.driving import chat_body, drive, read_request, serving, whole
from vlmhyperbench_sdk.load import LoadLimits

pytestmark = pytest.mark.anyio

CERTIFICATE = Path(__file__).with_name("loopback.pem")
EXPIRED = Path(__file__).with_name("expired.pem")
LARGE = 5_000_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def serving_tls(certificate: Path = CERTIFICATE) -> AsyncIterator[tuple[str, list[int]]]:
    """Answer with as many letters as the request has bytes; yield the URL and a list with an item per connection."""
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
    context.load_cert_chain(certificate)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/chat/completions", connections


async def test_large_requests_and_answers_are_whole_over_connections_kept_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    bodies = [chat_body(), b"y" * LARGE, chat_body(), chat_body(), b"y" * LARGE, chat_body()]
    async with serving_tls() as (url, connections):
        driven = await drive(tmp_path, url, bodies=bodies, in_flight=2)
    assert [(row["status"], len(str(row["text"]))) for row in driven.rows] == [("ok", len(body)) for body in bodies]
    assert len(connections) == 2


async def test_an_untrusted_certificate_is_refused(tmp_path: Path) -> None:
    async with serving_tls() as (url, _):
        driven = await drive(tmp_path, url, bodies=[chat_body()])
    assert driven.end.outcome == "failed"
    assert "CERTIFICATE_VERIFY_FAILED" in str(driven.end.error)


@pytest.mark.parametrize(
    ("certificate", "host", "reason"),
    [
        (CERTIFICATE, "localhost", "certificate is not valid for 'localhost'"),
        (EXPIRED, "127.0.0.1", "certificate has expired"),
    ],
    ids=["another_host", "expired"],
)
async def test_a_trusted_but_invalid_certificate_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certificate: Path, host: str, reason: str
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with serving_tls(certificate) as (url, _):
        driven = await drive(tmp_path, url.replace("127.0.0.1", host), bodies=[chat_body()])
    assert (driven.end.outcome, driven.rows) == ("failed", [])
    assert str(driven.end.error).startswith("connect_failed: [SSL: CERTIFICATE_VERIFY_FAILED]")
    assert reason in str(driven.end.error)


async def test_a_handshake_that_does_not_end_times_out(tmp_path: Path) -> None:
    received: asyncio.Queue[bytes] = asyncio.Queue()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await received.put(await reader.read())

    async with serving(listen) as url:
        driven = await drive(
            tmp_path,
            url.replace("http:", "https:"),
            bodies=[chat_body()],
            limits=LoadLimits(connect_timeout_s=0.2),
        )
        handshake = await received.get()
    assert str(driven.end.error).startswith("connect_failed: no TLS handshake")
    assert (driven.end.outcome, driven.rows) == ("failed", [])
    assert handshake.startswith(b"\x16\x03"), "the client began a handshake"


async def test_certificates_need_not_be_verified(tmp_path: Path) -> None:
    async with serving_tls() as (url, _):
        driven = await drive(tmp_path, url, bodies=[chat_body()], verify=False)
    assert [row["status"] for row in driven.rows] == ["ok"]


async def test_over_tls_the_process_takes_the_instants(tmp_path: Path) -> None:
    async with serving_tls() as (url, _):
        driven = await drive(tmp_path, url, bodies=[chat_body()], verify=False)
    assert (driven.end.transport, driven.end.instants) == ("tls", "process")
