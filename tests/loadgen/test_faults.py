"""Servers that refuse, break off, stall, or send garbage or too many bytes."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from pathlib import Path

import pytest

from tests.loadgen.driving import (
    Driven,
    chat_body,
    drive,
    drive_open,
    read_request,
    respond,
    serving,
    streamed,
    whole,
)
from vlmhyperbench_loadgen.streams import STALE_NS
from vlmhyperbench_sdk.load import LoadLimits, StartedLine
from vlmhyperbench_simulated.server import start_server
from vlmhyperbench_simulated.simulation import Simulation

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("receiver")]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def errors(driven: Driven) -> list[str]:
    """Return the error code of each row, `ok` for a row without an error."""
    return [str(row["error"] or "ok").partition(":")[0] for row in driven.rows]


def question(body: bytes) -> str:
    """Return the text of a request of `chat_body`."""
    return str(json.loads(body)["messages"][0]["content"])


def answer_and_close(writer: asyncio.StreamWriter, answer: bytes) -> None:
    """Send an answer and the end of the connection together, so that no load of the machine comes between them."""
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    writer.write(answer)
    writer.write_eof()


async def simulate(tmp_path: Path, simulation: Simulation, *, requests: int = 1, tries: int = 1) -> Driven:
    async with await start_server(simulation) as server:
        return await drive(
            tmp_path,
            f"{server.url}/v1/chat/completions",
            bodies=[chat_body(number) for number in range(requests)],
            in_flight=2,
            limits=LoadLimits(request_timeout_s=60.0, tries=tries),
        )


async def test_a_transient_refusal_is_retried_and_only_the_last_try_counts(tmp_path: Path) -> None:
    driven = await simulate(tmp_path, Simulation(failure_rate=1.0, recovers_after=1), requests=3, tries=5)
    assert errors(driven) == ["ok"] * 3
    assert [row["tries"] for row in driven.rows] == [2] * 3
    for row in driven.rows:
        assert row["scheduled_ns"] <= row["sent_ns"] < row["last_event_ns"]


async def test_a_permanent_refusal_is_an_error_after_the_last_try(tmp_path: Path) -> None:
    driven = await simulate(tmp_path, Simulation(failure_rate=1.0), tries=2)
    assert [(row["status"], row["http_status"], row["tries"]) for row in driven.rows] == [("error", 503, 2)]


async def test_a_wrong_request_is_not_retried(tmp_path: Path) -> None:
    driven = await simulate(tmp_path, Simulation(failure_rate=1.0, failure_status=404), tries=5)
    assert [(row["http_status"], row["tries"]) for row in driven.rows] == [(404, 1)]


async def test_timed_phases_never_retry(tmp_path: Path) -> None:
    async with await start_server(Simulation(failure_rate=1.0)) as server:
        driven = await drive(
            tmp_path,
            f"{server.url}/v1/chat/completions",
            bodies=[chat_body()],
            kind="single_stream",
            limits=LoadLimits(tries=5),
        )
    assert [row["tries"] for row in driven.rows] == [1]


async def test_a_retry_waits_as_long_as_retry_after(tmp_path: Path) -> None:
    async def refuse_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await read_request(reader)
        writer.write(respond(b"", status="429 Too Many", headers="Retry-After: 1\r\n"))
        await read_request(reader)
        writer.write(whole())
        await reader.read()

    async with serving(refuse_once) as url:
        driven = await drive(tmp_path, url, bodies=[chat_body()], limits=LoadLimits(tries=2))
    (row,) = driven.rows
    started = driven.lines[0]
    assert isinstance(started, StartedLine)
    assert row["status"] == "ok"
    assert row["scheduled_ns"] - started.monotonic_ns >= 1e9


async def test_an_error_inside_a_stream_is_retried(tmp_path: Path) -> None:
    async def fail_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await read_request(reader)
        error = json.dumps({"error": {"message": "slot lost", "code": 500}})
        writer.write(respond(f"data: {error}\n\n".encode(), media_type="text/event-stream"))
        await read_request(reader)
        writer.write(whole())
        await reader.read()

    async with serving(fail_once) as url:
        driven = await drive(tmp_path, url, bodies=[chat_body()], limits=LoadLimits(tries=2))
    assert [(row["status"], row["tries"]) for row in driven.rows] == [("ok", 2)]


async def test_the_received_part_of_a_broken_answer_is_recorded(tmp_path: Path) -> None:
    driven = await simulate(tmp_path, Simulation(failure_rate=1.0, failure="cut", gap_ms=1.0))
    (row,) = driven.rows
    assert errors(driven) == ["connection_lost"]
    assert row["text"]
    assert row["event_ns"]
    assert row["http_status"] == 200


async def test_a_connection_that_closes_without_an_answer_is_lost(tmp_path: Path) -> None:
    driven = await simulate(tmp_path, Simulation(failure_rate=1.0, failure="reset"))
    assert (errors(driven), driven.end.resent) == (["connection_lost"], 0)


async def test_a_connection_that_the_server_closed_between_requests_is_opened_again(tmp_path: Path) -> None:
    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await read_request(reader)
        writer.write(whole(f"connection {number}"))

    async with serving(answer_once) as url:
        driven = await drive(tmp_path, url, bodies=[chat_body(number) for number in range(4)])
    assert [(row["text"], row["tries"]) for row in driven.rows] == [(f"connection {n}", 1) for n in range(4)]


@pytest.mark.parametrize("answer", [whole("fine"), streamed("fine")], ids=["whole", "streamed"])
@pytest.mark.parametrize("answers", [1, 3], ids=["second", "fourth"])
async def test_a_request_sent_again_is_counted_and_its_send_is_the_first_one(
    tmp_path: Path, answer: bytes, answers: int
) -> None:
    closed_ns: list[int] = []

    async def close_on_next_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        for _ in range(answers if number == 0 else 100):
            await read_request(reader)
            writer.write(answer)
        await read_request(reader)
        closed_ns.append(time.monotonic_ns())

    async with serving(close_on_next_request) as url:
        driven = await drive(tmp_path, url, bodies=[chat_body(number) for number in range(6)], kind="offline")
    assert [(row["status"], row["text"], row["tries"]) for row in driven.rows] == [("ok", "fine", 1)] * 6
    assert driven.end.resent == 1
    resent = driven.rows[answers]
    assert resent["sent_ns"] <= closed_ns[0] <= resent["event_ns"][0]
    assert resent["event_ns"][0] <= resent["stream_end_ns"] <= driven.rows[answers + 1]["sent_ns"]


@pytest.mark.parametrize("streams", [1, 4])
async def test_after_an_unannounced_close_requests_wait_for_the_next_one(tmp_path: Path, streams: int) -> None:
    received: list[str] = []

    async def close_after_the_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        received.append(question(await read_request(reader)))
        answer_and_close(writer, streamed(received[-1]))

    async with serving(close_after_the_answer) as url:
        bodies = [chat_body(number) for number in range(50)]
        driven = await drive(tmp_path, url, bodies=bodies, kind="offline", in_flight=streams)
    assert [(row["status"], row["text"], row["tries"]) for row in driven.rows] == [
        ("ok", f"question {number}", 1) for number in range(50)
    ]
    assert sorted(received) == sorted(f"question {number}" for number in range(50))
    assert 1 <= driven.end.resent <= streams
    # After its last answer a stream may end before the connection is opened again.
    assert 50 - streams <= driven.end.reopened + driven.end.resent <= 50
    for row in driven.rows:
        assert row["scheduled_ns"] <= row["sent_ns"] <= row["event_ns"][0]


async def test_a_server_that_keeps_connections_open_after_one_close_is_asked_on_them(tmp_path: Path) -> None:
    connections: list[int] = []

    async def close_the_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        while True:
            await read_request(reader)
            connections.append(number)
            if number == 0:
                answer_and_close(writer, streamed("fine"))
                return
            writer.write(streamed("fine"))

    async with serving(close_the_first) as url:
        driven = await drive(tmp_path, url, bodies=[chat_body(number) for number in range(8)], kind="offline")
    assert errors(driven) == ["ok"] * 8
    assert connections == [0] + [1] * 7
    assert (driven.end.resent, driven.end.reopened) == (1, 0)
    # The second answer ended on a connection that was expected to close.
    assert driven.rows[2]["scheduled_ns"] - driven.rows[1]["stream_end_ns"] >= STALE_NS


async def test_an_open_loop_opens_the_next_connection_before_a_request_is_due(tmp_path: Path) -> None:
    received: list[str] = []

    async def close_after_the_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        received.append(question(await read_request(reader)))
        answer_and_close(writer, streamed("fine"))

    async with serving(close_after_the_answer) as url:
        driven = await drive_open(tmp_path, url, instants_ms=[20.0 * number for number in range(20)])
    assert errors(driven) == ["ok"] * 20
    assert sorted(received) == sorted(f"question {number}" for number in range(20))
    # A stream may see its first answer before any close is known, and may end after its last answer.
    streams = len({row["stream"] for row in driven.rows})
    assert driven.end.reopened + driven.end.resent >= 20 - 2 * streams


async def test_a_request_is_sent_again_only_once(tmp_path: Path) -> None:
    async def answer_only_the_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await read_request(reader)
        if number == 0:
            writer.write(whole())
            await read_request(reader)

    async with serving(answer_only_the_first) as url:
        driven = await drive(tmp_path, url, bodies=[chat_body(number) for number in range(2)])
    assert (errors(driven), driven.end.resent) == (["ok", "connection_lost"], 1)


async def test_a_request_is_not_sent_again_if_the_server_closes_the_connection_late(tmp_path: Path) -> None:
    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await read_request(reader)
        writer.write(whole(f"connection {number}"))
        await read_request(reader)
        await asyncio.sleep(2 * STALE_NS / 1e9)

    async with serving(answer_once) as url:
        driven = await drive(tmp_path, url, bodies=[chat_body(number) for number in range(3)], kind="offline")
    assert errors(driven) == ["ok", "connection_lost", "ok"]


async def test_slowly_sent_bytes_do_not_delay_the_time_out(tmp_path: Path) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"X-Drip: 1\r\n")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with serving(drip) as url:
        driven = await drive(tmp_path, url, bodies=[chat_body()] * 2, limits=LoadLimits(request_timeout_s=0.2))
    assert [row["status"] for row in driven.rows] == ["timeout", "timeout"]
    for row in driven.rows:
        assert row["stream_end_ns"] - row["sent_ns"] >= 0.2e9


async def test_a_server_without_an_answer_times_out(tmp_path: Path) -> None:
    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await reader.read()

    async with serving(listen) as url:
        driven = await drive(tmp_path, url, bodies=[chat_body()], limits=LoadLimits(request_timeout_s=0.1))
    assert [(row["status"], row["http_status"], row["text"]) for row in driven.rows] == [("timeout", None, None)]


async def test_garbage_is_a_bad_answer_and_the_next_request_succeeds(tmp_path: Path) -> None:
    answers = [
        b"\x00\xff" * 50 + b"\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        respond(b"<html>hello</html>", media_type="text/html"),
        respond(b"data: {broken\n\n", media_type="text/event-stream"),
        respond(b"data: 3\n\n", media_type="text/event-stream"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot a size\r\n\r\n",
        whole(),
    ]

    async def send_garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        while True:
            await read_request(reader)
            writer.write(answers.pop(0))

    async with serving(send_garbage) as url:
        driven = await drive(tmp_path, url, bodies=[chat_body(number) for number in range(7)])
    assert errors(driven) == ["bad_answer"] * 6 + ["ok"]


async def test_ten_megabytes_are_accepted_or_refused_by_the_limit(tmp_path: Path) -> None:
    text = "x" * 10_000_000

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        while True:
            await read_request(reader)
            writer.write(whole(text))

    async with serving(flood) as url:
        wide = await drive(
            tmp_path / "wide", url, bodies=[chat_body()] * 2, limits=LoadLimits(max_answer_bytes=11_000_000)
        )
        narrow = await drive(
            tmp_path / "narrow", url, bodies=[chat_body()] * 2, limits=LoadLimits(max_answer_bytes=1_000_000)
        )
    assert [row["text"] for row in wide.rows] == [text] * 2
    assert errors(narrow) == ["answer_too_large"] * 2


async def test_an_answer_before_the_end_of_the_request_is_recorded(tmp_path: Path) -> None:
    async def refuse_early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(respond(b'{"error": {"message": "too big"}}', status="413 Too Large"))
        await writer.drain()
        while await reader.read(65536):
            pass

    async with serving(refuse_early) as url:
        driven = await drive(tmp_path, url, bodies=[b"x" * 30_000_000])
    assert [row["error"] for row in driven.rows] == ["http_413: too big"]


async def test_large_requests_arrive_whole(tmp_path: Path) -> None:
    bodies = [bytes([65 + number]) * 5_000_000 for number in range(4)]

    async def repeat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        while True:
            body = await read_request(reader)
            writer.write(whole(f"{len(body)} {chr(body[0])} {len(set(body))}"))

    async with serving(repeat) as url:
        driven = await drive(tmp_path, url, bodies=bodies, in_flight=4)
    assert [row["text"] for row in driven.rows] == [f"5000000 {letter} 1" for letter in "ABCD"]


async def test_a_port_without_a_server_fails_the_load(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1/chat/completions"
        driven = await drive(tmp_path, url, bodies=[chat_body()])
    assert driven.end.outcome == "failed"
    assert driven.end.error == "connect_failed: Connection refused"
    assert driven.rows == []


async def test_a_host_without_address_fails_the_load(tmp_path: Path) -> None:
    driven = await drive(tmp_path, "http://no-such-host.invalid/v1", bodies=[chat_body()])
    assert driven.end.outcome == "failed"
    assert str(driven.end.error).startswith("connect_failed: the host 'no-such-host.invalid'")


@pytest.mark.parametrize("is_unix", [False, True])
async def test_every_request_to_a_server_that_dies_has_a_row(tmp_path: Path, is_unix: bool) -> None:
    server: asyncio.Server

    async def answer_and_die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        server.close()
        writer.write(whole())
        writer.close()

    path = tmp_path / "s"
    if is_unix:
        server = await asyncio.start_unix_server(answer_and_die, path)
        url, unix_socket = "http://engine/v1", str(path)
    else:
        server = await asyncio.start_server(answer_and_die, "127.0.0.1", 0)
        url, unix_socket = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", None
    driven = await drive(tmp_path, url, bodies=[chat_body(n) for n in range(3000)], unix_socket=unix_socket)
    assert driven.end.outcome == "complete"
    assert errors(driven) == ["ok"] + ["connect_failed"] * 2999
    assert driven.rows[-1]["sent_ns"] is None
