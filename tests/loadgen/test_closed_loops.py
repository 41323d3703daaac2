"""Closed loops with either receiver: every request is sent and recorded once, with its answer and its instants."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.loadgen.driving import SSE_HEAD, Driven, chat_body, drive, read_request, serving, streamed, whole, write
from vlmhyperbench.load.process import LoadProcess
from vlmhyperbench_sdk.load import LoadLimits
from vlmhyperbench_simulated.record import SendRecord
from vlmhyperbench_simulated.server import start_server
from vlmhyperbench_simulated.simulation import Simulation

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("receiver")]

STREAMS = 6
SLACK_NS = 100_000
"""Maximum difference of two conversions of an instant between the clocks."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def simulate(
    tmp_path: Path, simulation: Simulation, *, requests: int, processes: int = 1
) -> tuple[Driven, list[SendRecord]]:
    async with await start_server(dataclasses.replace(simulation, record=True)) as server:
        driven = await drive(
            tmp_path,
            f"{server.url}/v1/chat/completions",
            bodies=[chat_body(number) for number in range(requests)],
            kind="offline",
            in_flight=STREAMS,
            processes=processes,
        )
        records = list(server.records)
    assert driven.end.outcome == "complete", driven.end.error
    assert [row["ordinal"] for row in driven.rows] == list(range(requests))
    return driven, records


def assert_streams_continue(rows: Sequence[dict[str, Any]], *, keeps_open: bool = True) -> None:
    """The next request of a stream is due at the end of the previous request, and is sent then or later.

    After a failure, or where the server closes the connection, it is due later: once the stream is free again.
    """
    by_stream = sorted(rows, key=lambda row: (row["stream"], row["sent_ns"]))
    for before, after in itertools.pairwise(by_stream):
        if before["stream"] == after["stream"]:
            free_for_ns = after["scheduled_ns"] - before["stream_end_ns"]
            assert free_for_ns >= -SLACK_NS
            assert free_for_ns <= SLACK_NS or before["status"] != "ok" or not keeps_open
            assert after["sent_ns"] >= after["scheduled_ns"] - SLACK_NS


def assert_true(rows: Sequence[dict[str, Any]], records: Sequence[SendRecord]) -> None:
    """Each row agrees with the server's record of the request with that body, and no request was sent twice."""
    sent = {record.body_sha256: record for record in records}
    assert len(sent) == len(records) == len(rows)
    for row in rows:
        record = sent[row["request_sha256"]]
        truth = record.to_json()
        assert row["sent_ns"] - SLACK_NS <= record.received_ns <= row["stream_end_ns"] + SLACK_NS
        if row["status"] == "ok":
            assert row["text"] == record.answer.text
            assert row["event_kind"] == truth["event_kind"]
            assert row["completion_tokens"] is None or row["event_tokens"] == truth["event_tokens"]
            event_ns = truth["event_ns"]
            assert isinstance(event_ns, list)
            pairs = zip(row["event_ns"], event_ns, strict=True)
            assert all(received_ns >= sent_ns - SLACK_NS for received_ns, sent_ns in pairs)
            assert row["last_event_ns"] <= row["stream_end_ns"]
    assert_streams_continue(rows)


@pytest.mark.parametrize(
    "simulation",
    [
        Simulation(tokens=1, usage="always"),
        Simulation(tokens=1, usage="never"),
        Simulation(tokens=1, usage="always", line_end="crlf"),
        Simulation(tokens=4, usage="always", ttft_ms=1.0, gap_ms=1.0),
        Simulation(tokens=6, usage="always", words="multibyte", events_per_write=3, gap_ms=0.5),
        Simulation(answer="yes", usage="always", finish_chunk="with_last"),
    ],
    ids=["one_token", "no_usage", "crlf", "several_reads", "multibyte", "one_answer"],
)
async def test_every_answer_is_that_of_its_request(tmp_path: Path, receiver: str, simulation: Simulation) -> None:
    driven, records = await simulate(tmp_path, simulation, requests=400)
    assert (driven.end.receiver, driven.end.instants) == (receiver, "kernel")
    assert {row["status"] for row in driven.rows} == {"ok"}
    assert_true(driven.rows, records)


async def test_several_processes_share_the_requests(tmp_path: Path) -> None:
    driven, records = await simulate(tmp_path, Simulation(tokens=1, usage="always"), requests=300, processes=2)
    assert_true(driven.rows, records)


@pytest.mark.parametrize(
    ("simulation", "code"),
    [
        (Simulation(tokens=1, fail_every=7), "http_503"),
        (Simulation(tokens=3, gap_ms=0.5, fail_every=7, failure="cut"), "connection_lost"),
    ],
    ids=["status", "cut"],
)
async def test_a_failure_is_that_of_its_request(tmp_path: Path, simulation: Simulation, code: str) -> None:
    driven, records = await simulate(tmp_path, simulation, requests=210)
    failed = {record.body_sha256 for record in records if record.number % 7 == 6}
    assert {row["request_sha256"] for row in driven.rows if row["error"]} == failed
    assert {str(row["error"]).partition(":")[0] for row in driven.rows if row["error"]} == {code}
    assert_true(driven.rows, records)


async def drive_script(
    tmp_path: Path, answers: Sequence[bytes], *, requests: int, closes_after: int = 0, timeout_s: float = 20.0
) -> Driven:
    """Answer the n-th request of a connection with the n-th answer, over and over."""

    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int) -> None:
        for count in itertools.count(1):
            body = json.loads(await read_request(reader))
            number = body["messages"][0]["content"].rpartition(" ")[2]
            writer.write(answers[(count - 1) % len(answers)].replace(b"WORD", f"{int(number):04d}".encode()))
            await writer.drain()
            if count == closes_after:
                return

    async with serving(answering) as url:
        bodies = [chat_body(number) for number in range(requests)]
        limits = LoadLimits(request_timeout_s=timeout_s)
        return await drive(tmp_path, url, bodies=bodies, kind="offline", in_flight=STREAMS, limits=limits)


@pytest.mark.parametrize(
    "answers",
    [
        [streamed("WORD")],
        [streamed("WORD", head=SSE_HEAD + b"X-Request-Id: WORD\r\n")],
        [streamed("WORD", end=b"0\r\nX-Trailer: yes\r\n\r\n")],
        [streamed("WORD", head=SSE_HEAD + b"X-Number: %d\r\n" % number) for number in range(3)],
        [streamed("WORD"), whole("WORD")],
        [streamed("WORD"), streamed("WORD", head=SSE_HEAD + b"Connection: close\r\n")],
    ],
    ids=["different", "different_heads", "trailers", "alternating_heads", "json_between", "closing"],
)
async def test_answers_of_every_shape_are_recorded_once(tmp_path: Path, answers: list[bytes]) -> None:
    closes = 2 if b"Connection: close" in answers[-1] else 0
    driven = await drive_script(tmp_path, answers, requests=150, closes_after=closes)
    assert [(row["status"], row["text"]) for row in driven.rows] == [("ok", f"{number:04d}") for number in range(150)]
    assert (driven.end.resent, driven.end.reopened > 0) == (0, closes > 0)
    assert_streams_continue(driven.rows, keeps_open=not closes)


async def test_requests_are_recorded_once_if_the_server_closes_connections_between_them(tmp_path: Path) -> None:
    driven = await drive_script(tmp_path, [streamed("WORD")], requests=60, closes_after=5)
    # A request that is sent while the connection closes is sent again, or is lost if the server received it.
    assert {row["status"] for row in driven.rows} <= {"ok", "error"}
    assert [row["text"] for row in driven.rows if row["status"] == "ok"] == [
        f"{row['ordinal']:04d}" for row in driven.rows if row["status"] == "ok"
    ]
    assert len(driven.rows) == 60


async def test_an_answer_with_bytes_after_its_end_times_out_and_its_text_is_recorded(tmp_path: Path) -> None:
    answers = [streamed("WORD"), streamed("WORD") + b"more"]
    driven = await drive_script(tmp_path, answers, requests=12, timeout_s=4.0)
    assert [row["text"] for row in driven.rows] == [f"{number:04d}" for number in range(12)]
    assert {row["status"] for row in driven.rows} == {"ok", "timeout"}


async def test_a_request_that_hangs_times_out_and_the_others_succeed(tmp_path: Path) -> None:
    is_over = asyncio.Event()

    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int) -> None:
        while True:
            body = await read_request(reader)
            if b'question 50"' in body:
                writer.write(streamed("half")[:-40])
                await is_over.wait()
                return
            writer.write(streamed("fine"))

    async with serving(answering) as url:
        bodies = [chat_body(number) for number in range(100)]
        limits = LoadLimits(request_timeout_s=4.0)
        driven = await drive(tmp_path, url, bodies=bodies, kind="offline", in_flight=2, limits=limits)
        is_over.set()
    late = [row for row in driven.rows if row["status"] == "timeout"]
    assert [(row["ordinal"], row["text"]) for row in late] == [(50, "half")]
    assert late[0]["stream_end_ns"] - late[0]["sent_ns"] >= 4_000_000_000
    assert [row["status"] for row in driven.rows].count("ok") == 99


async def test_a_time_out_counts_from_its_own_request(tmp_path: Path) -> None:
    odd = streamed("odd", head=SSE_HEAD + b"X-Odd: yes\r\n")

    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int) -> None:
        for count in itertools.count(1):
            await read_request(reader)
            answer = odd if count == 4 else streamed("fine")
            begin = 150 if count == 4 else 0
            writer.write(answer[:begin])
            await asyncio.sleep(0.7)
            writer.write(answer[begin:])

    async with serving(answering) as url:
        bodies = [chat_body(number) for number in range(5)]
        # The first request's time would be over during the fourth one.
        limits = LoadLimits(request_timeout_s=2.6)
        driven = await drive(tmp_path, url, bodies=bodies, kind="offline", limits=limits)
    assert [(row["status"], row["text"]) for row in driven.rows] == [
        ("ok", "fine"),
        ("ok", "fine"),
        ("ok", "fine"),
        ("ok", "odd"),
        ("ok", "fine"),
    ]


async def test_after_draining_sent_requests_are_answered_and_others_are_not_sent(tmp_path: Path) -> None:
    received: list[int] = []
    enough = asyncio.Event()

    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int) -> None:
        while True:
            body = json.loads(await read_request(reader))
            received.append(int(body["messages"][0]["content"].rpartition(" ")[2]))
            writer.write(streamed("fine"))
            if len(received) >= 300:
                enough.set()
                await asyncio.sleep(0)

    async with serving(answering) as url:
        bodies = [chat_body(number) for number in range(20_000)]
        write(tmp_path / "plan", url, bodies=bodies, kind="offline", in_flight=STREAMS)
        process = await LoadProcess.start(tmp_path / "plan", tmp_path / "record")
        await process.ready()
        await enough.wait()
        await process.drain()
        lines = [line async for line in process.lines()]
        end = await process.wait()
    driven = Driven(lines=lines, folder=tmp_path / "record")
    assert (end.outcome, end.error) == ("cancelled", None)
    assert sorted(received) == [row["ordinal"] for row in driven.rows] == list(range(len(received)))
    assert {row["status"] for row in driven.rows} == {"ok"}
    assert 300 <= len(received) < 20_000
