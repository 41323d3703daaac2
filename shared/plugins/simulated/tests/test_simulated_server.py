"""The timed server on a real socket: it records every send, and never sends early."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from vlmhyperbench_simulated.answers import PlannedAnswer
from vlmhyperbench_simulated.limits import measure
from vlmhyperbench_simulated.pacing import Pacer
from vlmhyperbench_simulated.process import SimulatedProcess
from vlmhyperbench_simulated.record import Records, SendRecord
from vlmhyperbench_simulated.server import start_server
from vlmhyperbench_simulated.simulation import Simulation
from vlmhyperbench_simulated.streams import STREAMS
from vlmhyperbench_simulated.timeline import Write

pytestmark = pytest.mark.anyio

MS = 1_000_000
QUICK = Simulation(ttft_ms=4.0, gap_ms=2.0, tokens=4, usage="always", record=True)
BODY = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}).encode()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def _post(body: bytes = BODY, *, headers: Sequence[str] = ()) -> bytes:
    lines = ["POST /v1/chat/completions HTTP/1.1", "host: x", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def _read(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    status = int(head.split(" ")[1])
    if "chunked" in head:
        body = b""
        while size := int(await reader.readline(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
        return status, body
    length = next(line for line in head.split("\r\n") if line.startswith("content-length"))
    return status, await reader.readexactly(int(length.partition(":")[2]))


async def _exchange(port: int, *requests: bytes) -> list[tuple[int, bytes]]:
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answers = []
        for request in requests:
            writer.write(request)
            answers.append(await _read(reader))
        writer.close()
        return answers


@pytest.mark.parametrize("name", ["plain", *STREAMS])
async def test_no_write_is_sent_before_its_instant(name: str) -> None:
    stream = STREAMS.get(name, QUICK)
    simulation = dataclasses.replace(
        stream, ttft_ms=4.0, gap_ms=2.0, tail_ms=stream.tail_ms / 100, fail_every=0, record=True
    )
    async with await start_server(simulation) as server:
        await asyncio.gather(*(_exchange(server.port, _post(), _post()) for _ in range(4)))
        assert len(server.records) == 8
        for record in server.records:
            for write, sent_ns in zip(record.answer.writes, record.write_ns, strict=True):
                assert sent_ns >= record.received_ns + write.offset_ns


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has receive timestamps")
async def test_a_request_arrives_with_its_bytes_and_not_when_they_are_read() -> None:
    waited_ns = []
    async with await start_server(QUICK) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        # The kernel begins to stamp some time after the first socket asked for stamps.
        for _ in range(20):
            sent_ns = time.monotonic_ns()
            writer.write(_post())
            # The server shares the only thread of this process, so it cannot read meanwhile.
            threading.Event().wait(0.02)
            await _read(reader)
            waited_ns.append(server.records[len(server.records) - 1].received_ns - sent_ns)
        writer.close()
    assert any(abs(waited) < 10 * MS for waited in waited_ns)


async def test_small_writes_are_sent_at_once() -> None:
    async with await start_server(QUICK) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(_post())
        await _read(reader)
        (connection,) = server.open
        assert connection.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        writer.close()


@pytest.mark.parametrize(("seed", "answers"), [(None, 3), (7, 1)])
@pytest.mark.parametrize("streams", [True, False])
async def test_a_repeated_request_gets_another_answer_unless_there_is_a_seed(
    seed: int | None, answers: int, streams: bool
) -> None:
    body = BODY if streams else BODY.replace(b"true", b"false")
    async with await start_server(dataclasses.replace(QUICK, tokens=1, seed=seed)) as server:
        await _exchange(server.port, _post(body), _post(body), _post(body))
        assert len({record.answer.text for record in server.records}) == answers


async def test_the_record_has_every_event_that_was_sent() -> None:
    async with await start_server(QUICK) as server:
        request_id = "x-request-id: abc"
        await _exchange(server.port, _post(headers=[request_id]))
        [(status, body)] = await _exchange(server.port, b"GET /record HTTP/1.1\r\n\r\n")
        assert status == 200
        [record] = json.loads(body)["records"]
        assert record["request_id"] == "abc"
        assert record["event_kind"] == ["content"] * 4 + ["usage"]
        assert record["event_tokens"] == [1, 1, 1, 1, 0]
        assert record["event_ns"] == sorted(record["event_ns"])
        assert len(record["late_ns"]) == 5
        assert all(late >= 0 for late in record["late_ns"])
        assert len(record["text"].split()) == 4
        assert record["end_ns"] == record["event_ns"][-1]
        await _exchange(server.port, b"DELETE /record HTTP/1.1\r\n\r\n")
        assert len(server.records) == 0


def test_the_oldest_records_are_dropped_and_counted() -> None:
    records = Records(max_writes=7)
    for number in range(4):
        made = PlannedAnswer(status=200, writes=(Write(0, b""),) * 3)
        records.add(SendRecord(number, 0, None, "", 0, made))
    assert ([record.number for record in records], records.dropped) == ([2, 3], 2)
    records.clear()
    assert (len(records), records.dropped) == (0, 0)


async def test_every_fourth_request_fails() -> None:
    async with await start_server(Simulation(fail_every=4)) as server:
        answers = await _exchange(server.port, *[_post()] * 8)
        assert [status for status, _ in answers] == [200, 200, 200, 503] * 2


async def test_a_chosen_request_recovers_after_its_tries() -> None:
    async with await start_server(Simulation(failure_rate=1.0, recovers_after=2)) as server:
        answers = await _exchange(server.port, *[_post()] * 3)
        assert [status for status, _ in answers] == [503, 503, 200]


async def test_a_reset_closes_the_connection_without_an_answer() -> None:
    async with await start_server(Simulation(failure_rate=1.0, failure="reset")) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(_post())
        assert await reader.read() == b""
        writer.close()


async def test_requests_in_pieces_and_pipelined_requests_are_answered_in_order() -> None:
    async with await start_server(Simulation(tokens=2)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        two = _post() + b"GET /v1/models HTTP/1.1\r\n\r\n"
        for start in range(0, len(two), 7):
            writer.write(two[start : start + 7])
            await writer.drain()
        assert (await _read(reader))[1].endswith(b"data: [DONE]\n\n")
        assert json.loads((await _read(reader))[1])["data"][0]["id"] == "simulated"
        writer.close()


async def test_a_request_that_is_no_chat_request_is_refused() -> None:
    async with await start_server(Simulation()) as server:
        answers = await _exchange(
            server.port, _post(b"{"), _post(b"[]"), _post(b"{}"), b"GET /nowhere HTTP/1.1\r\n\r\n"
        )
        assert [status for status, _ in answers] == [400, 400, 400, 404]
        [chunked] = await _exchange(server.port, b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n")
        assert chunked[0] == 411
        [long] = await _exchange(server.port, b"GET / HTTP/1.1\r\nx: " + b"a" * 70_000)
        assert long[0] == 431


async def test_a_client_that_expects_100_continue_gets_it() -> None:
    async with await start_server(Simulation(tokens=1)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        head, _, body = _post(headers=["expect: 100-continue"]).partition(b"\r\n\r\n")
        writer.write(head + b"\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        assert (await _read(reader))[0] == 200
        writer.close()


async def test_the_key_is_required_if_it_is_set() -> None:
    async with await start_server(Simulation(tokens=1), api_key="right") as server:
        answers = await _exchange(
            server.port,
            _post(),
            _post(headers=["authorization: Bearer wrong"]),
            _post(headers=["authorization: Bearer right"]),
            b"GET /health HTTP/1.1\r\n\r\n",
        )
        assert [status for status, _ in answers] == [401, 401, 200, 200]


async def test_a_start_takes_as_long_as_declared() -> None:
    async with await start_server(Simulation(start_ms=3_600_000)) as server:
        [(status, _)] = await _exchange(server.port, b"GET /health HTTP/1.1\r\n\r\n")
        assert status == 503


async def test_the_server_listens_on_a_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "engine")
    async with await start_server(Simulation(tokens=1), unix_socket=path):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(_post())
        assert (await _read(reader))[0] == 200
        writer.close()


async def test_the_pacer_calls_in_order_of_the_instants() -> None:
    loop = asyncio.get_running_loop()
    pacer = Pacer(loop)
    done, called = asyncio.Event(), []
    now_ns = round(loop.time() * 1e9)
    pacer.at(now_ns + 6 * MS, done.set)
    for delay in (4, 1, 3):
        pacer.at(now_ns + delay * MS, lambda delay=delay: called.append(delay))
    async with asyncio.timeout(10):
        await done.wait()
    pacer.close()
    assert called == [1, 3, 4]


def test_the_server_runs_in_a_separate_process() -> None:
    with SimulatedProcess(QUICK) as engine:
        answers = asyncio.run(_exchange(engine.port, _post()))
        assert answers[0][0] == 200
        assert engine.records()[0]["status"] == 200
        engine.clear_records()
        assert engine.records() == []


def test_the_limits_count_all_writes_and_no_lateness_is_negative() -> None:
    limit = measure(2, gap_ms=2.0, tokens=5)
    assert limit.writes == 10
    assert 0 <= limit.late_p50_ms <= limit.late_p99_ms <= limit.late_max_ms
    assert limit.is_on_time is (limit.late_p99_ms <= 1.0)
