"""The compiled receiver: what it hears is what was sent, and it tells when there is something to look at."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loadgen.driving import COMPILES, chat_body, drive
from tests.loadgen.relays import waiting
from vlmhyperbench_loadgen.receiving import INTERPRETED, Receiver, Waited, make_receiver
from vlmhyperbench_sdk.stamps import ask_for_stamps
from vlmhyperbench_simulated.server import start_server
from vlmhyperbench_simulated.simulation import Simulation

pytestmark = COMPILES

END = b"\r\n\r\n"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@contextmanager
def listening(tail: bytes = b"xxxx", limit: int = 10**9) -> Iterator[tuple[Receiver, socket.socket, socket.socket]]:
    """A receiver, the socket that it listens to, and that socket's other end."""
    near, far = socket.socketpair()
    with near, far, waiting(near) as receiver:
        receiver.listen(near.fileno(), tail, limit)
        yield receiver, near, far


def look(receiver: Receiver) -> tuple[list[tuple[int, int]], int]:
    waited = receiver.wait(0.0)
    return waited.ready, waited.heard


@given(st.lists(st.binary(min_size=1, max_size=40).filter(lambda part: b"\n" not in part), min_size=1, max_size=30))
def test_what_is_heard_is_what_was_sent_read_by_read(parts: list[bytes]) -> None:
    with listening() as (receiver, near, far):
        for part in parts:
            far.sendall(part)
            assert look(receiver) == ([], 1)
        far.sendall(END)
        assert look(receiver) == ([(near.fileno(), select.EPOLLIN)], 0)
        heard = receiver.take(near.fileno())
    assert heard.data == b"".join(parts) + END
    assert heard.ends == list(accumulate(map(len, [*parts, END])))
    assert heard.times == sorted(heard.times)
    assert heard.stamps == [0] * (len(parts) + 1)


@pytest.mark.parametrize("cut", range(4))
def test_an_empty_line_is_found_wherever_it_is_cut(cut: int) -> None:
    with listening(tail=b"data" + END[:cut]) as (receiver, near, far):
        for place in range(cut, 4):
            far.sendall(END[place : place + 1])
            ready, heard = look(receiver)
            assert (len(ready), heard) == ((1, 0) if place == 3 else (0, 1))
        assert receiver.take(near.fileno()).data == END[cut:]


def test_more_than_the_limit_is_told_at_the_read_that_exceeds_it() -> None:
    with listening(limit=10) as (receiver, near, far):
        far.sendall(b"0123456789")
        assert look(receiver) == ([], 1)
        far.sendall(b"x")
        assert look(receiver) == ([(near.fileno(), select.EPOLLIN)], 0)
        assert receiver.take(near.fileno()).ends == [10, 11]


def test_the_end_of_a_connection_is_told_and_what_came_before_is_kept() -> None:
    with listening() as (receiver, near, far):
        far.sendall(b"some")
        far.close()
        # A hang-up is more than something to read: it is not heard, it is told.
        ready, _ = look(receiver)
        assert [fd for fd, _ in ready] == [near.fileno()]
        assert receiver.take(near.fileno()).data + near.recv(100) == b"some"


def test_whom_nobody_listens_to_is_told_as_by_any_poll() -> None:
    with listening() as (receiver, near, far):
        receiver.take(near.fileno())
        far.sendall(b"data")
        assert look(receiver) == ([(near.fileno(), select.EPOLLIN)], 0)
        assert near.recv(100) == b"data"
        receiver.listen(near.fileno(), b"xxxx", 100)
        receiver.forget(near.fileno())
        far.sendall(b"more")
        assert look(receiver) == ([(near.fileno(), select.EPOLLIN)], 0)


def test_a_descriptor_that_is_used_again_begins_anew() -> None:
    with listening() as (receiver, near, far):
        far.sendall(b"old")
        look(receiver)
        receiver.forget(near.fileno())
        receiver.listen(near.fileno(), b"xxxx", 100)
        far.sendall(b"new")
        look(receiver)
        data, ends, times, _ = receiver.take(near.fileno())
        assert (data, ends, len(times)) == (b"new", [3], 1)


def test_an_answer_of_any_length_is_kept_and_its_room_given_back() -> None:
    data = bytes(range(1, 9)) * 500_000
    with listening() as (receiver, near, far):
        for start in range(0, len(data), 20_000):
            far.sendall(data[start : start + 20_000])
            heard = 1
            while heard:
                _, heard = look(receiver)
        assert receiver.take(near.fileno()).data == data
        receiver.forget(near.fileno())
        receiver.listen(near.fileno(), b"xxxx", 100)
        far.sendall(b"x")
        look(receiver)
        assert receiver.take(near.fileno()).data == b"x"


def test_the_kernels_stamps_lie_before_the_reads() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as near,
        server.accept()[0] as far,
        waiting(near) as receiver,
    ):
        if not ask_for_stamps(near):
            pytest.skip("this system does not stamp")
        receiver.listen(near.fileno(), b"xxxx", 10**6)
        stamps: list[int] = []
        # The kernel begins to stamp some time after the first socket asked for it.
        for _ in range(100_000):
            began_ns = time.time_ns()
            far.sendall(b"data")
            receiver.wait(0.01)
            heard = receiver.take(near.fileno())
            receiver.listen(near.fileno(), b"xxxx", 10**6)
            if heard.stamps[0]:
                stamps = heard.stamps
                break
    assert began_ns - 30_000 <= stamps[0] <= time.time_ns()


def test_a_wait_ends_with_its_time() -> None:
    with listening() as (receiver, _, _far):
        began_s = time.monotonic()
        assert receiver.wait(0.02) == Waited([], 0)
        assert time.monotonic() - began_s >= 0.02


@pytest.mark.anyio
async def test_either_receiver_records_the_same_of_the_same_stream(tmp_path: Path, receiver: str) -> None:
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
        assert all(came >= left for came, left in zip(row["event_ns"], truth["event_ns"], strict=True))


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INTERPRETED, "1")
    assert make_receiver(0) is None
