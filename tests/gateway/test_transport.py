"""The client towards the engine: all framings of HTTP/1.1, persistent connections, and engines that break the rules."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.processes import PATIENCE_S
from tests.support.wording import Wording
from vlmhyperbench_gateway.errors import EngineFailed
from vlmhyperbench_gateway.transport import EngineClient
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.net import parse_url


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class _Script:
    """Answers the n-th request over all connections with the n-th bytes; `closing` ones close afterwards."""

    def __init__(self, *answers: bytes, closing: bool = False) -> None:
        self._answers = list(answers)
        self._is_closing = closing
        self.connections = 0
        self.requests: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self._answers:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [line for line in head.split(b"\r\n") if line.startswith(b"content-length")]
                body = await reader.readexactly(int(length[0].partition(b":")[2])) if length else b""
                self.requests.append(head + body)
                writer.write(self._answers.pop(0))
                await writer.drain()
                if self._is_closing:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):  # the client has gone
            pass
        finally:
            writer.close()


@asynccontextmanager
async def _client(script: _Script) -> AsyncIterator[EngineClient]:
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = EngineClient(parse_url(f"http://127.0.0.1:{port}/base"), ["127.0.0.1"], headers={"x-key": "k"})
    async with asyncio.timeout(PATIENCE_S):
        yield client
    client.close()
    server.close()


async def _ask(client: EngineClient, body: bytes = b"") -> tuple[int, list[bytes]]:
    async with client.request("POST", "/path", body) as response:
        return response.status, [piece async for piece in response.pieces()]


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\ntrailer: 1\r\n\r\n"
COUNTED = b"HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\nabc"


@pytest.mark.anyio
async def test_chunks_that_arrive_together_are_one_piece_and_the_connection_persists() -> None:
    script = _Script(CHUNKED, COUNTED, CHUNKED)
    async with _client(script) as client:
        assert await _ask(client, b"{}") == (200, [b"abcde"])
        assert await _ask(client) == (201, [b"abc"])
        assert await _ask(client) == (200, [b"abcde"])
    assert script.connections == 1
    assert script.requests[0].startswith(b"POST /base/path HTTP/1.1\r\nhost: 127.0.0.1:")
    assert b"\r\nx-key: k\r\n" in script.requests[0]
    assert script.requests[0].endswith(b"content-length: 2\r\n\r\n{}")


@pytest.mark.anyio
async def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    async with _client(_Script(b"HTTP/1.0 200 OK\r\n\r\nrest", closing=True)) as client:
        assert await _ask(client) == (200, [b"rest"])


@pytest.mark.anyio
async def test_an_idle_connection_that_the_engine_closed_is_replaced() -> None:
    script = _Script(COUNTED, COUNTED, COUNTED, closing=True)
    async with _client(script) as client:
        for _ in range(3):
            assert (await _ask(client))[0] == 201
    assert script.connections == 3


@pytest.mark.anyio
async def test_an_interim_answer_is_skipped() -> None:
    async with _client(_Script(b"HTTP/1.1 100 Continue\r\n\r\n" + COUNTED)) as client:
        assert (await _ask(client))[0] == 201


@pytest.mark.anyio
async def test_an_answer_that_is_not_read_to_its_end_closes_its_connection() -> None:
    script = _Script(COUNTED, COUNTED)
    async with _client(script) as client:
        async with client.request("GET", "/") as response:
            assert response.status == 201
        assert (await _ask(client))[0] == 201
    assert script.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabc",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nabc",
        COUNTED + COUNTED,
        CHUNKED + b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 2_000_000 + b"\r\n\r\n",
    ],
)
@pytest.mark.anyio
async def test_an_engine_that_breaks_the_rules_has_failed(answer: bytes) -> None:
    async with _client(_Script(answer, closing=True)) as client:
        with pytest.raises(EngineFailed):
            await _ask(client)


@pytest.mark.anyio
async def test_an_answer_over_the_limit_has_failed() -> None:
    async with _client(_Script(COUNTED)) as client, client.request("GET", "/") as response:
        with pytest.raises(EngineFailed, match="exceeds 2 bytes"):
            await response.read(2)


@pytest.mark.anyio
async def test_the_error_of_an_engine_that_nobody_listens_for_names_its_address() -> None:
    client = EngineClient(parse_url("http://127.0.0.1:9"), ["127.0.0.1"])
    with pytest.raises(EngineFailed, match=re.escape("127.0.0.1:9")):
        await _ask(client)


@pytest.mark.parametrize("value", ["a\r\nx: y", "a\nb", "ключ"])
def test_a_header_cannot_smuggle_another(value: str, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        EngineClient(parse_url("http://127.0.0.1:9"), ["127.0.0.1"], headers={"authorization": value})
    wording(refused.value)
