"""A relay on a pair of sockets, and what must hold of any bytes that it hears, whoever makes them up."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from vlmhyperbench_loadgen.answers import Answer
from vlmhyperbench_loadgen.connection import Reply
from vlmhyperbench_loadgen.receiving import Receiver, make_receiver
from vlmhyperbench_loadgen.relaying import Relay
from vlmhyperbench_loadgen.rows import COLUMNS, Row, make_row
from vlmhyperbench_loadgen.table import Request
from vlmhyperbench_loadgen.tries import Try, read_try
from vlmhyperbench_sdk.stamps import read_clocks

SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"


def streamed(text: str, *, head: bytes = SSE_HEAD, end: bytes = b"0\r\n\r\n") -> bytes:
    """An answer of one token, in one piece."""
    events = [
        {"id": "chatcmpl-0123456789", "choices": [{"delta": {"content": text}, "finish_reason": None}]},
        {"id": "chatcmpl-0123456789", "choices": [{"delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
    ]
    lines = [f"data: {json.dumps(event)}\n\n" for event in events] + ["data: [DONE]\n\n"]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(line), line.encode()) for line in lines)
    return head + b"\r\n" + chunks + end


@contextmanager
def waiting(*sockets: socket.socket) -> Iterator[Receiver]:
    """A receiver whose poll watches sockets for reading."""
    poll = select.epoll()
    receiver = make_receiver(poll.fileno())
    assert receiver is not None, "setting up compiles it where there is a compiler"
    for sock in sockets:
        sock.setblocking(False)
        poll.register(sock.fileno(), select.EPOLLIN)
    try:
        yield receiver
    finally:
        receiver.close()
        poll.close()


HEAD = b"POST / HTTP/1.1\r\nContent-Length: "
BODY = b"x" * 100


def request(place: int, **changes: int) -> Request:
    row = Request(1, place, place, 0, 0, 0, -1, place * len(BODY), len(BODY), 0, 0, 0, b"%064d" % place)
    return row._replace(**changes)


@dataclass
class Relaying:
    """A relay of requests on one socket, the first of which is under way."""

    receiver: Receiver
    relay: Relay
    near: socket.socket
    far: socket.socket
    finished: list[Try] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def wait(self) -> list[tuple[int, int]]:
        waited = self.receiver.wait(0.0)
        self.relay.collect()
        return waited.ready

    def begin(self) -> None:
        """Say that the next request was sent."""
        done = self.relay.take(3)
        assert done is not None
        before = read_clocks()
        done.scheduled_ns = done.sent_ns = before.monotonic_ns
        done.reply = Reply(before)
        self.relay.relay(self.near.fileno(), 10**6, done, before)

    def learn(self) -> Answer:
        """Read the oldest answer, and let the relay learn from it."""
        done = self.finished.pop(0)
        answer = read_try(done)
        assert done.reply is not None
        self.relay.learn(done.reply, make_row(done, answer, lambda text: text))
        return answer


@contextmanager
def relaying(
    tmp_path: Path, *, requests: int, sockets: tuple[socket.socket, socket.socket] | None = None
) -> Iterator[Relaying]:
    (tmp_path / "bodies.bin").write_bytes(BODY * requests)
    near, far = sockets or socket.socketpair()
    finished: list[Try] = []
    rows: list[Row] = []
    with near, far, waiting(near) as receiver:
        relay = Relay(
            receiver,
            [request(place) for place in range(requests)],
            finish=finished.append,
            report=lambda more, _: rows.extend(more),
        )
        assert relay.begin(tmp_path / "bodies.bin", HEAD)
        known = Reply()
        assert known.add(streamed("known"), 0)
        relay.know(known)
        one = Relaying(receiver, relay, near, far, finished, rows)
        one.begin()
        yield one


SAID = [at for at, name in enumerate(COLUMNS) if not name.endswith("_ns")]
"""Columns that do not depend on when an answer came."""


def check(folder: Path, answers: Sequence[Sequence[bytes]]) -> None:
    """See that each answer, sent in pieces after the one before was relayed, says what Python reads in it.

    What is not relayed has to be in Python's hands, whole.
    """
    with relaying(folder, requests=len(answers) + 1) as one:
        fd = one.near.fileno()
        for place, pieces in enumerate(answers):
            sent, ready = b"", []
            for piece in pieces:
                one.far.sendall(piece)
                sent += piece
                ready = one.wait()
                if one.finished or one.rows or ready:
                    break
            if not one.finished and not one.rows:
                assert one.receiver.take(fd).data == sent
                assert one.relay.state(fd)[:2] == (0, place)
                return
            assert not ready
            alone = Reply()
            assert alone.add(sent, 0)
            assert alone.leaves_connection_usable
            done = Try(request=request(place), number=1, scheduled_ns=0, stream=3, place=place, reply=alone)
            done.sent_ns = done.end_ns = 0
            row = make_row(done, read_try(done), str)
            if one.finished:
                heard = one.finished[0].reply
                assert heard is not None
                assert heard.received == sent
                one.learn()
            else:
                assert [one.rows[0][at] for at in SAID] == [row[at] for at in SAID]
                one.rows.clear()
            assert one.relay.state(fd)[:2] == (1, place + 1)
