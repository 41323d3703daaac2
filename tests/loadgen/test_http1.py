"""Where an HTTP answer begins and ends, and which bytes are not HTTP."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench_loadgen.connection import Response
from vlmhyperbench_loadgen.http1 import NotHttp, read_head

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def feed(*reads: bytes) -> Response:
    response = Response()
    for number, data in enumerate(reads):
        assert not response.is_whole
        response.add(data, number)
    return response


def payload(response: Response) -> bytes:
    assert response.head is not None
    return response.read_body().payload


def test_a_body_of_known_length_ends_there() -> None:
    response = feed(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab", b"cd")
    assert response.is_whole
    assert response.leaves_connection_usable
    assert payload(response) == b"abcd"


def test_bytes_after_the_end_make_the_connection_unusable() -> None:
    assert not feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab").leaves_connection_usable
    assert not feed(CHUNKED + b"0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n").leaves_connection_usable


@given(
    st.lists(st.binary(min_size=1, max_size=40) | st.just(b"\r\n0\r\n\r\n"), max_size=6),
    st.lists(st.integers(1, 30), max_size=30),
    st.sampled_from([b"", b"Trailer: x\r\n"]),
)
def test_cuts_between_reads_do_not_change_the_payload_of_chunks(
    pieces: list[bytes], cuts: list[int], trailer: bytes
) -> None:
    data = CHUNKED + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n" + trailer + b"\r\n"
    reads, at = [], 0
    for cut in cuts:
        reads.append(data[at : at + cut])
        at += cut
    response = feed(*(part for part in [*reads, data[at:]] if part))
    assert response.is_whole
    assert response.leaves_connection_usable
    assert payload(response) == b"".join(pieces)


def test_without_length_or_chunks_the_connection_ends_the_body() -> None:
    response = feed(b"HTTP/1.1 200 OK\r\n\r\nab")
    assert not response.is_whole
    assert response.end()
    assert not response.leaves_connection_usable
    assert payload(response) == b"ab"


def test_the_end_of_the_connection_does_not_complete_a_body_with_length_or_chunks() -> None:
    assert not feed(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab").end()
    assert not feed(CHUNKED + b"2\r\nab\r\n").end()
    assert not Response().end()


def test_interim_answers_are_skipped() -> None:
    response = feed(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n", b"HTTP/1.1 204 No\r\n\r\n")
    assert response.is_whole
    assert response.head is not None
    assert response.head.status == 204


@pytest.mark.parametrize("head", [b"Connection: close\r\n", b"connection:  CLOSE \r\n"])
def test_a_server_may_close_after_its_answer(head: bytes) -> None:
    assert not feed(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + head + b"\r\n").leaves_connection_usable


def test_an_old_server_closes_after_its_answer() -> None:
    assert not feed(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n").leaves_connection_usable


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x15\x03\x01\x00\x02\x02\x16",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 099 X\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x" * 70_000,
        CHUNKED + b"zz\r\n\r\n",
        CHUNKED + b"-5\r\n\r\n",
        CHUNKED + b"0x5\r\n\r\n",
        CHUNKED + b"x" * 2000 + b"\r\n\r\n",
        CHUNKED + b"1\r\nabc\r\n0\r\n\r\n",
    ],
)
def test_bytes_that_are_no_http_answer_are_refused(data: bytes) -> None:
    with pytest.raises(NotHttp):
        Response().add(data, 0)


@pytest.mark.parametrize("cut", range(1, 20))
def test_an_incomplete_head_is_not_refused(cut: int) -> None:
    assert read_head(bytearray(b"HTTP/1.1 200 OK\r\nContent-Length: 0"[:cut])) is None


@given(st.binary(max_size=400))
def test_garbage_is_refused_or_incomplete(data: bytes) -> None:
    response = Response()
    try:
        response.add(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", 0)
        response.add(data, 1)
        payload(response)
    except NotHttp:
        return
