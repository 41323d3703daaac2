"""A client that sends an incomplete request loses the connection, and one that is only slow does not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import websockets

from tests.api.conftest import Served, serving
from tests.support.processes import PATIENCE_S
from vlmhyperbench.db.engine import Database
from vlmhyperbench.domain.timers import Timers
from vlmhyperbench.settings import Settings

pytestmark = pytest.mark.anyio

REQUEST_S = 1.0
HEAD = b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\n"
POST = b"POST /api/v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.fixture
async def api(settings: Settings, database: Database) -> AsyncIterator[Served]:
    async with serving(settings.model_copy(update={"timers": Timers(request_s=REQUEST_S)}), database) as served:
        yield served


async def _opened(api: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = api.url.removeprefix("http://").partition(":")
    return await asyncio.open_connection(host, int(port))


async def _sent(api: Served, *parts: bytes, trickle: bytes = b"") -> bytes:
    """Send parts, then single bytes for ever, and return what comes back until the server ends the connection.

    A byte that arrives while the server closes its socket makes that end a reset.
    """
    reader, writer = await _opened(api)
    for part in parts:
        writer.write(part)
        await writer.drain()

    async def drip() -> None:
        for at in range(10**6):
            writer.write(trickle[at % len(trickle) :][:1])
            await asyncio.sleep(0.1)

    dripping = asyncio.ensure_future(drip()) if trickle else None
    answer = b""
    async with asyncio.timeout(PATIENCE_S):
        with suppress(ConnectionResetError):
            while part := await reader.read(2**16):
                answer += part
    if dripping is not None:
        dripping.cancel()
    writer.close()
    return answer


@pytest.mark.parametrize("sent", [b"", b"G", HEAD], ids=["nothing", "a letter", "half a head"])
@pytest.mark.parametrize("trickle", [b"", b"X-A: b\r\n"], ids=["then silence", "then a byte at a time"])
async def test_an_incomplete_head_gets_408_and_a_closed_connection(api: Served, sent: bytes, trickle: bytes) -> None:
    assert (await _sent(api, sent, trickle=trickle)).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("trickle", [b"", b"X"])
async def test_an_incomplete_head_on_a_reused_connection_closes_it(api: Served, trickle: bytes) -> None:
    answer = await _sent(api, HEAD + b"\r\n", HEAD, trickle=trickle)
    assert answer.startswith(b"HTTP/1.1 200")
    assert trickle == b"" or b"HTTP/1.1 408" in answer


@pytest.mark.parametrize("framing", [b"Content-Length: 1000\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n3e8\r\n{"])
@pytest.mark.parametrize("trickle", [b"", b" "])
async def test_an_incomplete_body_gets_408_and_its_connection_is_closed(
    api: Served, framing: bytes, trickle: bytes
) -> None:
    answer = await _sent(api, POST + f"X-API-Key: {api.key}\r\n".encode() + framing, trickle=trickle)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert (head.split(b" ")[1], json.loads(body)["code"], json.loads(body)["cure"] != "") == (b"408", "too_slow", True)


@pytest.mark.parametrize("trickle", [b"", b" "])
async def test_an_incomplete_body_that_is_not_read_closes_its_connection(api: Served, trickle: bytes) -> None:
    answer = await _sent(api, HEAD + b"Content-Length: 1000000\r\n\r\n", trickle=trickle)
    assert answer.startswith(b"HTTP/1.1 200")


async def test_a_request_that_comes_in_pieces_within_its_time_is_answered(
    settings: Settings, database: Database
) -> None:
    patient = settings.model_copy(update={"timers": Timers(request_s=PATIENCE_S)})
    async with serving(patient, database) as api:
        reader, writer = await _opened(api)
        for _ in range(3):
            for at in range(0, len(HEAD), 8):
                writer.write(HEAD[at : at + 8])
                await asyncio.sleep(0.02)
            writer.write(b"\r\n")
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
            rest = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = next(int(line.split(b":")[1]) for line in rest.split(b"\r\n") if b"content-length" in line)
            await reader.readexactly(length)
        writer.close()


async def test_a_body_that_is_large_and_steady_has_more_time(api: Served) -> None:
    header = {"schema": "vlmhb/answers/v1", "format": "x", "tool": None, "model": None, "task": None, "decoding": {}}
    lines = [json.dumps({"key": str(no), "text": "x" * 500_000}) for no in range(8)]

    async def steady() -> AsyncIterator[bytes]:
        """Earn seven seconds with each line, and take a third of one."""
        yield json.dumps(header).encode() + b"\n"
        for line in lines:
            yield line.encode() + b"\n"
            await asyncio.sleep(REQUEST_S / 3)

    answer = await api.http.post("/answers", content=steady(), headers={"Content-Type": "application/x-ndjson"})
    assert (answer.status_code, answer.json()["answers"]) == (201, 8)


async def test_a_live_connection_outlives_the_time_of_a_request(api: Served) -> None:
    async with websockets.connect(api.live_url, additional_headers={"X-API-Key": api.key}) as live:
        await asyncio.sleep(2 * REQUEST_S)
        await asyncio.wait_for(await live.ping(), PATIENCE_S)
