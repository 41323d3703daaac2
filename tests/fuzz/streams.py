"""The properties of parsed answers that must hold for every sequence of bytes that a server sends."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from vlmhyperbench_loadgen.answers import ParsedAnswer
from vlmhyperbench_loadgen.connection import Response
from vlmhyperbench_loadgen.frames import FrameReader, encode
from vlmhyperbench_loadgen.http1 import NotHttp
from vlmhyperbench_loadgen.rows import make_row
from vlmhyperbench_loadgen.segments import encode_rows
from vlmhyperbench_loadgen.table import Request
from vlmhyperbench_loadgen.tries import Try, read_try

REQUEST = Request(1, 0, 0, 0, 0, 0, -1, 0, 0, 0, -1, -1, b"")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

PIECES = (
    b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n',
    b'data: {"id":"chatcmpl-1","choices":[{"delta":{"role":"assistant","content":""}}]}\n\n',
    b'data: {"id": "chatcmpl-1", "choices": [{"delta": {"reasoning_content": "b"}}]}\r\n\r\n',
    b'data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"c"}}]}}]}\n\n',
    b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n',
    b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n',
    b'data: {"error":{"message":"no","code":500}}\n\n',
    b"data: [DONE]\n\n",
    b": comment\n\n",
    b"event: x\ndata: {\ndata: }\n\n",
)
"""Parts of valid streams, from which a search begins."""


def cut(data: bytes, offsets: Sequence[int]) -> list[bytes]:
    """Cut bytes at the given offsets, taken modulo their length."""
    cuts = sorted({offset % (len(data) + 1) for offset in offsets} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(cuts)]


def chunked(pieces: Sequence[bytes]) -> bytes:
    """Write pieces as the chunks of a whole body."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece) + b"0\r\n\r\n"


def receive(reads: Sequence[bytes], *, is_sealed: bool = True) -> ParsedAnswer:
    """Receive the reads, the n-th at instant n, and parse the answer; `is_sealed`: also write its row as a segment."""
    response = Response()
    done = Try(request=REQUEST, number=1, scheduled_ns=0, stream=0, sent_ns=0, end_ns=len(reads))
    done.response = response
    try:
        for number, data in enumerate(reads):
            if response.is_whole:
                break
            response.add(data, number)
    except NotHttp as error:
        done.failure = f"bad_answer: {error}"
    answer = read_try(done)
    row = make_row(done, answer, str)
    if not is_sealed:
        return answer
    assert FrameReader().feed(encode({"event": "rows", "rows": [row]})) == [{"event": "rows", "rows": [row]}]
    assert encode_rows([row]).endswith(b"PAR1")
    return answer


def content_of(answer: ParsedAnswer) -> tuple[object, ...]:
    """Return everything of an answer except its instants."""
    return (
        answer.text,
        answer.reasoning,
        answer.event_kind,
        answer.event_tokens,
        answer.finish_reason,
        answer.completion_tokens,
        answer.error,
    )


def check(payload: bytes, offsets: Sequence[int]) -> None:
    """Check bytes as the payload of a stream, as a whole response and as a broken body, cut at any offsets."""
    at_once = receive([HEAD + chunked([payload])])
    in_pieces = receive(cut(HEAD + chunked(cut(payload, offsets[::2])), offsets), is_sealed=False)
    assert content_of(in_pieces) == content_of(at_once)
    bare, broken = (receive(cut(data, offsets), is_sealed=False) for data in (payload, HEAD + payload))
    for answer in (at_once, in_pieces, bare, broken):
        assert len(answer.event_ns) == len(answer.event_tokens) == len(answer.event_kind)
        assert answer.event_ns == sorted(answer.event_ns)
