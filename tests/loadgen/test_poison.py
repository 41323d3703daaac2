"""The load generator's parsers and process record every poisonous answer as the table of poison defines."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.loadgen.driving import chat_body, drive, read_request, respond, serving
from tests.support.poison import STREAMS, WHOLE, Outcome, Poison
from vlmhyperbench_loadgen.answers import ParsedAnswer, read_stream, read_whole
from vlmhyperbench_loadgen.http1 import Body

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def outcome_of(answer: ParsedAnswer) -> Outcome:
    if answer.error is not None:
        return Outcome(error=answer.error.partition(":")[0])
    return Outcome(text=answer.text, prompt_tokens=answer.prompt_tokens, completion_tokens=answer.completion_tokens)


@pytest.mark.parametrize("poison", WHOLE.values(), ids=WHOLE)
def test_a_whole_answer_is_parsed_as_defined(poison: Poison) -> None:
    assert outcome_of(read_whole(poison.data, 1)) == poison.outcome


@pytest.mark.parametrize("poison", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("reads", [1, 2])
def test_a_stream_is_parsed_as_defined(poison: Poison, reads: int) -> None:
    data = poison.data
    ends = [len(data) // 2, len(data)][-reads:]
    body = Body(payload=data, pieces=[(0, len(data))])
    assert outcome_of(read_stream(body, ends, list(range(reads)), is_complete=True)) == poison.outcome


def as_chunk(data: bytes) -> bytes:
    return (b"%x\r\n%b\r\n" % (len(data), data) if data else b"") + b"0\r\n\r\n"


async def drive_poison(tmp_path: Path, table: Mapping[str, Poison], *, streams: bool) -> list[Outcome]:
    """Send a request for each poisonous answer; return the recorded outcomes."""
    answers = [poison.data for poison in table.values()]
    left = iter(answers)

    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        del number
        while True:
            await read_request(reader)
            data = next(left)
            writer.write(HEAD + as_chunk(data) if streams else respond(data))
            await writer.drain()

    async with serving(answering) as url:
        bodies = [chat_body(number, stream=streams) for number in range(len(answers))]
        driven = await drive(tmp_path, url, bodies=bodies, kind="offline")
    assert driven.end.outcome == "complete"
    return [
        Outcome(error=str(row["error"]).partition(":")[0])
        if row["status"] == "error"
        else Outcome(text=row["text"], prompt_tokens=row["prompt_tokens"], completion_tokens=row["completion_tokens"])
        for row in driven.rows
    ]


@pytest.mark.anyio
@pytest.mark.usefixtures("receiver")
@pytest.mark.parametrize(("table", "streams"), [(WHOLE, False), (STREAMS, True)], ids=["whole", "streams"])
async def test_the_load_generator_records_answers_as_defined(
    tmp_path: Path, table: Mapping[str, Poison], streams: bool
) -> None:
    recorded = await drive_poison(tmp_path, table, streams=streams)
    assert dict(zip(table, recorded, strict=True)) == {name: poison.outcome for name, poison in table.items()}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
