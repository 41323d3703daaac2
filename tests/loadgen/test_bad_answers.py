"""Unusual and broken answers in HTTP and server-sent events, each over a real socket."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.loadgen.driving import Driven, chat_body, drive, read_request, respond, serving, whole
from tests.support.wording import Wording
from vlmhyperbench.load.plan import write_bodies, write_plan
from vlmhyperbench.load.process import LoadProcess
from vlmhyperbench_sdk.load import PLAN_VERSION, EndLine, Endpoint, LoadLimits, LoadPlan, PhasePlan

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("receiver")]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def event(text: str | None = None, *, reason: str | None = None) -> bytes:
    delta = {} if text is None else {"content": text}
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return b"data: " + json.dumps({"choices": [choice]}, ensure_ascii=False).encode() + b"\n\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = event(reason="stop") + b"data: [DONE]\n\n"


async def answer_with(
    tmp_path: Path, *answers: bytes, closes: bool = False, limits: LoadLimits | None = None
) -> Driven:
    """Give one answer to each request; `closes`: close the connection after each."""
    left = list(answers)

    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        while left:
            await read_request(reader)
            writer.write(left.pop(0))
            await writer.drain()
            if closes:
                return
        await reader.read()

    async with serving(answering) as url:
        return await drive(tmp_path, url, bodies=[chat_body(n) for n in range(len(answers))], limits=limits)


def summary(driven: Driven) -> list[tuple[object, object]]:
    """(error's code or ok, text) of each row."""
    return [(str(row["error"] or "ok").partition(":")[0], row["text"]) for row in driven.rows]


async def test_the_events_before_a_connection_ends_inside_a_chunk_are_recorded(tmp_path: Path) -> None:
    cut = STREAM + chunk(event("one ")) + b"ff\r\n" + event("two ") + b'data: {"choi'
    assert summary(await answer_with(tmp_path, cut, closes=True)) == [("connection_lost", "one two ")]


async def test_half_a_character_at_the_end_of_an_event_becomes_a_replacement_character(tmp_path: Path) -> None:
    half = event("яблоко").replace("о".encode() + b'"', b'\xd0"')
    driven = await answer_with(tmp_path, STREAM + chunk(half) + chunk(END) + b"0\r\n\r\n", whole("next"))
    assert summary(driven) == [("ok", "яблок�"), ("ok", "next")]


async def test_after_a_stream_that_ends_inside_a_character_the_next_request_succeeds(tmp_path: Path) -> None:
    answers = [STREAM + b"ff\r\n" + event("ш")[:-30], whole("next")]
    driven = await answer_with(tmp_path, *answers, closes=True)
    assert [code for code, _ in summary(driven)] == ["connection_lost", "ok"]


async def test_ten_megabytes_in_one_event_are_one_event_with_tokens(tmp_path: Path) -> None:
    text = "x" * 10_000_000
    stream = STREAM + chunk(event(text)) + chunk(END) + b"0\r\n\r\n"
    wide = await answer_with(tmp_path / "wide", stream, whole(), limits=LoadLimits(max_answer_bytes=11_000_000))
    assert [len(str(recorded)) for _, recorded in summary(wide)] == [10_000_000, 2]
    assert wide.rows[0]["event_kind"] == ["content"]
    narrow = await answer_with(tmp_path / "narrow", stream, whole(), limits=LoadLimits(max_answer_bytes=1_000_000))
    assert summary(narrow)[0][0] == "answer_too_large"


@pytest.mark.parametrize("status", ["301 Moved", "307 Temporary Redirect"])
async def test_a_redirect_is_an_error_and_is_not_followed(tmp_path: Path, status: str) -> None:
    redirect = respond(b"", status=status, headers="Location: http://127.0.0.1:9/elsewhere\r\n")
    driven = await answer_with(tmp_path, redirect, whole())
    assert summary(driven) == [(f"http_{status[:3]}", None), ("ok", "ok")]


async def test_interim_answers_are_skipped(tmp_path: Path) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </style>\r\n\r\n"
    assert summary(await answer_with(tmp_path, interim + whole("a"), whole("b"))) == [("ok", "a"), ("ok", "b")]


async def test_trailers_after_the_last_chunk_are_part_of_the_answer(tmp_path: Path) -> None:
    stream = STREAM + chunk(event("a")) + chunk(END) + b"0\r\nX-Checksum: 1\r\nX-More: 2\r\n\r\n"
    driven = await answer_with(tmp_path, stream, whole("b"))
    assert summary(driven) == [("ok", "a"), ("ok", "b")]


async def test_chunks_may_have_extensions_and_leading_zeros(tmp_path: Path) -> None:
    data = event("a") + END
    stream = STREAM + b"000%X;name=value\r\n%b\r\n0\r\n\r\n" % (len(data), data)
    assert summary(await answer_with(tmp_path, stream, whole("b"))) == [("ok", "a"), ("ok", "b")]


async def test_an_http_1_0_answer_ends_with_its_connection(tmp_path: Path) -> None:
    old = b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + event("a") + END
    assert summary(await answer_with(tmp_path, old, old, closes=True)) == [("ok", "a"), ("ok", "a")]


async def test_events_may_have_names_ids_and_several_lines(tmp_path: Path) -> None:
    lines = event("a").removeprefix(b"data: ").replace(b'"choices": ', b'"choices":\ndata: ')
    strange = b"\n\n: hello\nevent: message\nid: 7\nretry: 5\ndata: " + lines + b"event: ping\n\n" + END
    driven = await answer_with(tmp_path, STREAM + chunk(strange) + b"0\r\n\r\n")
    assert summary(driven) == [("ok", "a")]


async def test_a_stream_without_end_marks_is_incomplete(tmp_path: Path) -> None:
    driven = await answer_with(tmp_path, STREAM + chunk(event("a")) + b"0\r\n\r\n")
    assert summary(driven) == [("incomplete_stream", "a")]


async def test_with_too_few_open_files_no_phase_starts(tmp_path: Path, wording: Wording) -> None:
    requests = write_bodies(tmp_path / "plan", [chat_body()] * 200, phase=1)
    plan = LoadPlan(
        version=PLAN_VERSION,
        phases=(PhasePlan(no=1, kind="offline", count=200, params={"in_flight": 200}),),
        endpoint=Endpoint(url="http://127.0.0.1:9/"),
        limits=LoadLimits(),
        seed=1,
    )
    write_plan(tmp_path / "plan", plan=plan, requests=requests)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nulimit -n 128\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    async with await LoadProcess.start(tmp_path / "plan", tmp_path / "record", python=str(python)) as process:
        await process.ready()
        lines = [line async for line in process.lines()]
    end = lines[-1]
    assert isinstance(end, EndLine)
    wording(end.error)
    assert [type(line).__name__ for line in lines] == ["StartedLine", "EndLine"]
