"""The properties of a compiled receiver on socket pairs that must hold for every sequence of actions."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal

from vlmhyperbench_loadgen.receiving import Receiver, make_receiver

EMPTY_LINE = b"\r\n\r\n"
PAIRS = 3


@contextmanager
def waiting(*sockets: socket.socket) -> Iterator[Receiver]:
    """Yield a receiver whose epoll watches sockets for reading."""
    epoll = select.epoll()
    receiver = make_receiver(epoll.fileno())
    assert receiver is not None, "these tests need a C compiler"
    for sock in sockets:
        sock.setblocking(False)
        epoll.register(sock.fileno(), select.EPOLLIN)
    try:
        yield receiver
    finally:
        receiver.close()
        epoll.close()


@dataclass(frozen=True, slots=True)
class Action:
    """An action on one of the socket pairs."""

    kind: Literal["start", "send", "stop", "release"]
    pair: int
    data: bytes = b""
    """The bytes to send, or the bytes received before the start."""
    max_bytes: int = 0


class _Expected:
    """What the receiver must have received of one descriptor."""

    def __init__(self) -> None:
        self.is_started = False
        self.tail = b""
        self.data = b""
        self.ends: list[int] = []
        self.max_bytes = 0

    def start(self, action: Action) -> None:
        self.is_started, self.tail, self.data, self.ends = True, action.data[-4:], b"", []
        self.max_bytes = action.max_bytes

    def receive(self, data: bytes) -> bool:
        """Add the bytes of one read; return whether the caller must handle the descriptor."""
        self.data += data
        self.ends.append(len(self.data))
        return len(self.data) > self.max_bytes or (self.tail + self.data).endswith(EMPTY_LINE)


def check(actions: Sequence[Action]) -> None:
    """Check that each read receives the bytes that were sent, and that the caller handles what it must."""
    with ExitStack() as stack:
        pairs = [tuple(map(stack.enter_context, socket.socketpair())) for _ in range(PAIRS)]
        receiver = stack.enter_context(waiting(*(near for near, _ in pairs)))
        expected = [_Expected() for _ in pairs]

        def stop(pair: int) -> None:
            data, ends, times, stamps = receiver.stop(pairs[pair][0].fileno())
            assert (data, ends) == (expected[pair].data, expected[pair].ends)
            assert times == sorted(times)
            assert len(times) == len(stamps) == len(ends)
            expected[pair].is_started = False

        for action in actions:
            (near, far), model = pairs[action.pair], expected[action.pair]
            match action.kind:
                case "start":
                    receiver.start(near.fileno(), action.data, action.max_bytes)
                    model.start(action)
                case "send" if action.data:
                    far.sendall(action.data)
                    result = receiver.wait(0.0)
                    if not model.is_started:
                        assert result == ([(near.fileno(), select.EPOLLIN)], 0)
                        assert near.recv(len(action.data) + 1) == action.data
                    elif model.receive(action.data):
                        assert result == ([(near.fileno(), select.EPOLLIN)], 0)
                        stop(action.pair)
                    else:
                        assert result == ([], 1)
                case "stop" if model.is_started:
                    stop(action.pair)
                case "release":
                    receiver.release(near.fileno())
                    model.is_started = False
