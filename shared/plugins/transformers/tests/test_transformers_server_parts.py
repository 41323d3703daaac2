"""The parts of the server that need no engine: requests, texts that come in tokens, bodies, HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from tests.support.wording import Wording
from vlmhyperbench_sdk.types import JsonValue
from vlmhyperbench_transformers.shim.answers import DONE, Answer, Piece, Usage
from vlmhyperbench_transformers.shim.asking import Asked, read_request
from vlmhyperbench_transformers.shim.http import HttpRequest, HttpResponse, json_response, serve
from vlmhyperbench_transformers.shim.refusal import Refusal, says_out_of_memory
from vlmhyperbench_transformers.shim.text import TextStream

MESSAGES: list[JsonValue] = [{"role": "user", "content": "Hi"}]


def _read(**fields: JsonValue) -> Asked:
    return read_request(json.dumps({"model": "m", "messages": MESSAGES, **fields}).encode(), "m")


def test_a_request_is_read() -> None:
    asked = _read(
        max_tokens=5,
        stop="\n",
        temperature=0,
        top_k=3,
        stream=True,
        stream_options={"include_usage": True},
        logit_bias={"7": -200},
        response_format={"type": "regex", "regex": "a+"},
        seed=None,
    )
    assert (asked.max_tokens, asked.stops, asked.stream, asked.include_usage) == (5, ("\n",), True, True)
    assert (asked.sampling, asked.top_k) == ({"temperature": 0.0}, 3)
    assert asked.logit_bias == {7: -100.0}
    assert asked.format == {"type": "regex", "regex": "a+"}
    assert _read(response_format={"type": "text"}).format is None
    assert _read(max_tokens=5, max_completion_tokens=6).max_tokens == 6


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"best_of": 2}, "unknown_field"),
        ({"tools": []}, "unknown_field"),
        ({"temperature": "hot"}, "invalid_input"),
        ({"n": 0}, "invalid_input"),
        ({"top_k": True}, "invalid_input"),
        ({"stream": 1}, "invalid_input"),
        ({"top_logprobs": 3}, "invalid_input"),
        ({"messages": []}, "invalid_input"),
        ({"messages": [{"role": "user", "content": [{"type": "audio"}]}]}, "invalid_input"),
        ({"stop": [1]}, "invalid_input"),
        ({"logit_bias": {"a": 1}}, "invalid_input"),
        ({"response_format": {"type": "xml"}}, "invalid_input"),
        ({"response_format": {"type": "json_schema"}}, "invalid_input"),
        ({"stream_options": {"include_usage": True, "other": 1}}, "unknown_field"),
        ({"model": "another"}, "model_not_found"),
    ],
)
def test_a_wrong_field_is_refused_by_name(fields: dict[str, JsonValue], code: str, wording: Wording) -> None:
    with pytest.raises(Refusal) as refused:
        _read(**fields)
    assert refused.value.code == code
    assert refused.value.status == (404 if code == "model_not_found" else 400)
    wording(refused.value.message)


def test_a_body_that_is_no_object_is_refused() -> None:
    for body in (b"{", b"[]", b"\xff"):
        with pytest.raises(Refusal):
            read_request(body, "m")


def _characters(tokens: Sequence[int]) -> str:
    return bytes(tokens).decode("utf-8", "replace")


def test_a_character_of_several_tokens_is_sent_whole() -> None:
    text = TextStream(_characters)
    assert [text.add(token) for token in "aé€b".encode()] == ["a", "", "é", "", "", "€", "b"]
    assert text.end() == ""


def test_a_character_that_stays_broken_is_replaced_at_the_end() -> None:
    text = TextStream(_characters)
    assert [text.add(token) for token in b"a\xe2\x82"] == ["a", "", ""]
    assert text.end() == "\ufffd"


def test_a_text_ends_before_a_stop_string_and_sends_nothing_of_it() -> None:
    text = TextStream(_characters, ["END", "\n\n"])
    sent = [text.add(token) for token in b"ENx\nEND more"]
    assert sent == ["", "", "ENx", "", "\n", "", "", "", "", "", "", ""]
    assert text.is_stopped
    assert text.end() == ""


def test_what_could_have_become_a_stop_string_is_sent_at_the_end() -> None:
    text = TextStream(_characters, ["END"])
    assert [text.add(token) for token in b"aEN"] == ["a", "", ""]
    assert (text.end(), text.is_stopped) == ("EN", False)


def test_bodies_are_those_of_openai() -> None:
    answer = Answer(model="m")
    pieces = [Piece(choice=1, text="b", finish="length"), Piece(choice=0, text="a"), Piece(choice=0, finish="stop")]
    usage = Usage(prompt=3, completion=4)
    whole = json.loads(answer.whole(pieces, usage, with_logprobs=False))
    assert [(choice["message"]["content"], choice["finish_reason"]) for choice in whole["choices"]] == [
        ("a", "stop"),
        ("b", "length"),
    ]
    assert whole["usage"]["total_tokens"] == 7
    first = json.loads(answer.chunk(pieces[1], is_first=True, with_logprobs=False)[6:])
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": "a"}
    last = json.loads(answer.chunk(pieces[2], is_first=False, with_logprobs=False)[6:])
    assert (last["choices"][0]["delta"], last["choices"][0]["finish_reason"]) == ({}, "stop")
    assert (first["id"], last["object"]) == (whole["id"], "chat.completion.chunk")
    assert json.loads(answer.usage_chunk(usage)[6:])["usage"] == whole["usage"]
    lone = answer.chunk(Piece(choice=0, text="\ud800"), is_first=False, with_logprobs=False)
    assert json.loads(lone[6:])["choices"][0]["delta"]["content"] == "?"


def test_memory_that_ran_out_is_told_apart() -> None:
    assert says_out_of_memory(MemoryError())
    assert says_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    assert says_out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"))
    assert not says_out_of_memory(RuntimeError("shapes do not match"))
    assert not says_out_of_memory(ValueError("out of memory"))


Exchange = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bytes]]


def _exchange(handler: Callable[[HttpRequest], Awaitable[HttpResponse]], exchange: Exchange) -> bytes:
    async def run() -> bytes:
        server = await serve(handler, host="127.0.0.1", port=0)
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            return await asyncio.wait_for(exchange(reader, writer), 30)
        finally:
            writer.close()
            server.close()

    return asyncio.run(run())


async def _echo(request: HttpRequest) -> HttpResponse:
    return json_response({"path": request.path, "body": request.body.decode()})


def test_a_connection_serves_one_request_after_another() -> None:
    async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"POST /a?x=1 HTTP/1.1\r\ncontent-length: 2\r\n\r\nhiGET /b HTTP/1.1\r\nconnection: close\r\n\r\n")
        return await reader.read()

    received = _exchange(_echo, exchange)
    assert received.count(b"HTTP/1.1 200 OK") == 2
    assert b'{"path": "/a", "body": "hi"}' in received
    assert b'{"path": "/b", "body": ""}' in received


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", b"413"),
        (b"GET / HTTP/1.1\r\nx: " + b"a" * 100_000 + b"\r\n\r\n", b"400"),
    ],
)
def test_what_is_no_request_is_refused(sent: bytes, status: bytes) -> None:
    async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(sent)
        return await reader.readline()

    assert _exchange(_echo, exchange).split()[1] == status


def test_a_stream_is_sent_in_chunks() -> None:
    async def handler(request: HttpRequest) -> HttpResponse:
        async def events() -> AsyncIterator[bytes]:
            yield b"data: 1\n\n"
            yield DONE

        return HttpResponse(events=events())

    async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        return await reader.readuntil(b"0\r\n\r\n")

    received = _exchange(handler, exchange)
    assert b"content-type: text/event-stream" in received
    assert b"\r\n\r\n9\r\ndata: 1\n\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n" in received


def test_a_client_that_leaves_ends_its_request() -> None:
    left = asyncio.Event()

    async def handler(request: HttpRequest) -> HttpResponse:
        async def events() -> AsyncIterator[bytes]:
            yield b"data: 1\n\n"
            await asyncio.Event().wait()

        return HttpResponse(events=events(), on_end=left.set)

    async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await reader.readuntil(b"data: 1\n\n")
        writer.close()
        await left.wait()
        return b"left"

    assert _exchange(handler, exchange) == b"left"
