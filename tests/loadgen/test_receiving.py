"""The compiled receiver: it receives every byte, and returns when the caller must handle a descriptor."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.loadgen.driving import COMPILES, chat_body, drive
from tests.loadgen.receivers import EMPTY_LINE, PAIRS, Action, check, waiting
from vlmhyperbench_loadgen.receiving import INTERPRETED, Receiver, WaitResult, make_receiver
from vlmhyperbench_sdk.stamps import ask_for_stamps
from vlmhyperbench_simulated.server import start_server
from vlmhyperbench_simulated.simulation import Simulation

pytestmark = COMPILES


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@contextmanager
def receiving(tail: bytes = b"xxxx", max_bytes: int = 10**9) -> Iterator[tuple[Receiver, socket.socket, socket.socket]]:
    """Yield a receiver, the socket that it reads, and the other end of that socket."""
    near, far = socket.socketpair()
    with near, far, waiting(near) as receiver:
        receiver.start(near.fileno(), tail, max_bytes)
        yield receiver, near, far


BYTES = st.one_of(st.sampled_from([EMPTY_LINE, b"\r\n", b"\r", b"\n"]), st.binary(max_size=40))
ACTIONS = st.builds(
    Action,
    kind=st.sampled_from(["start", "start", "send", "send", "send", "stop", "release"]),
    pair=st.integers(0, PAIRS - 1),
    data=BYTES,
    max_bytes=st.sampled_from([0, 10, 100, 10**9]),
)


@given(st.lists(ACTIONS, max_size=40))
@example([Action("start", 0, b"xxxx", 100), Action("send", 0, EMPTY_LINE)])
@example([Action("start", 0, b"x\r\n\r", 100), Action("send", 0, b"\n")])
@example([Action("start", 0, b"xxxx", 1), Action("send", 0, b"a"), Action("send", 0, b"b")])
def test_after_any_actions_every_read_holds_the_bytes_that_were_sent(actions: list[Action]) -> None:
    check(actions)


@pytest.mark.parametrize("cut", range(4))
def test_an_empty_line_is_recognised_across_reads(cut: int) -> None:
    with receiving(tail=b"data" + EMPTY_LINE[:cut]) as (receiver, near, far):
        for index in range(cut, 4):
            far.sendall(EMPTY_LINE[index : index + 1])
            events, reads = receiver.wait(0.0)
            assert (len(events), reads) == ((1, 0) if index == 3 else (0, 1))
        assert receiver.stop(near.fileno()).data == EMPTY_LINE[cut:]


def test_the_caller_handles_the_read_that_exceeds_the_limit() -> None:
    with receiving(max_bytes=10) as (receiver, near, far):
        far.sendall(b"0123456789")
        assert receiver.wait(0.0) == ([], 1)
        far.sendall(b"x")
        assert receiver.wait(0.0) == ([(near.fileno(), select.EPOLLIN)], 0)
        assert receiver.stop(near.fileno()).ends == [10, 11]


def test_the_caller_handles_the_end_of_a_connection_and_gets_the_bytes_before_it() -> None:
    with receiving() as (receiver, near, far):
        far.sendall(b"some")
        far.close()
        # epoll reports the hang-up besides the data, so the receiver does not read.
        events, _ = receiver.wait(0.0)
        assert [fd for fd, _ in events] == [near.fileno()]
        assert receiver.stop(near.fileno()).data + near.recv(100) == b"some"


def test_a_descriptor_that_is_not_started_is_reported_as_an_event() -> None:
    with receiving() as (receiver, near, far):
        receiver.stop(near.fileno())
        far.sendall(b"data")
        assert receiver.wait(0.0) == ([(near.fileno(), select.EPOLLIN)], 0)
        assert near.recv(100) == b"data"
        receiver.start(near.fileno(), b"xxxx", 100)
        receiver.release(near.fileno())
        far.sendall(b"more")
        assert receiver.wait(0.0) == ([(near.fileno(), select.EPOLLIN)], 0)


def test_a_reused_descriptor_starts_with_an_empty_buffer() -> None:
    with receiving() as (receiver, near, far):
        far.sendall(b"old")
        receiver.wait(0.0)
        receiver.release(near.fileno())
        receiver.start(near.fileno(), b"xxxx", 100)
        far.sendall(b"new")
        receiver.wait(0.0)
        data, ends, times, _ = receiver.stop(near.fileno())
        assert (data, ends, len(times)) == (b"new", [3], 1)


def test_an_answer_of_any_length_is_received_and_its_buffer_freed() -> None:
    data = bytes(range(1, 9)) * 500_000
    with receiving() as (receiver, near, far):
        for start in range(0, len(data), 20_000):
            far.sendall(data[start : start + 20_000])
            reads = 1
            while reads:
                _, reads = receiver.wait(0.0)
        assert receiver.stop(near.fileno()).data == data
        receiver.release(near.fileno())
        receiver.start(near.fileno(), b"xxxx", 100)
        far.sendall(b"x")
        receiver.wait(0.0)
        assert receiver.stop(near.fileno()).data == b"x"


def test_the_stamps_of_the_kernel_lie_before_the_reads() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as near,
        server.accept()[0] as far,
        waiting(near) as receiver,
    ):
        if not ask_for_stamps(near):
            pytest.skip("this system has no receive timestamps")
        receiver.start(near.fileno(), b"xxxx", 10**6)
        stamps: list[int] = []
        # The kernel begins to stamp some time after the first socket asked for stamps.
        for _ in range(100_000):
            began_ns = time.time_ns()
            far.sendall(b"data")
            receiver.wait(0.01)
            received = receiver.stop(near.fileno())
            receiver.start(near.fileno(), b"xxxx", 10**6)
            if received.stamps[0]:
                stamps = received.stamps
                break
    assert began_ns - 30_000 <= stamps[0] <= time.time_ns()


def test_a_wait_ends_after_its_time_out() -> None:
    with receiving() as (receiver, _, _far):
        began_s = time.monotonic()
        assert receiver.wait(0.02) == WaitResult([], 0)
        assert time.monotonic() - began_s >= 0.02


@pytest.mark.anyio
async def test_both_receivers_record_the_events_that_were_sent(tmp_path: Path, receiver: str) -> None:
    simulation = Simulation(ttft_ms=20.0, gap_ms=2.0, tokens=64, usage="always", record=True)
    async with await start_server(simulation) as server:
        url = f"{server.url}/v1/chat/completions"
        driven = await drive(tmp_path, url, bodies=[chat_body(n) for n in range(24)], kind="offline", in_flight=8)
        sent = {record.body_sha256: record.to_json() for record in server.records}
    assert (driven.end.receiver, driven.end.instants) == (receiver, "kernel")
    for row in driven.rows:
        truth = sent[row["request_sha256"]]
        assert (row["status"], row["completion_tokens"], row["event_kind"]) == ("ok", 64, truth["event_kind"])
        assert row["event_tokens"] == truth["event_tokens"]
        assert all(received >= sent_ns for received, sent_ns in zip(row["event_ns"], truth["event_ns"], strict=True))


def test_the_compiled_receiver_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INTERPRETED, "1")
    assert make_receiver(0) is None
