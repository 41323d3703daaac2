"""The relay alone, on a pair of sockets: what it sends, what it hands over, and what it takes for alike."""

from __future__ import annotations

import itertools
import select
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.loadgen.driving import COMPILES
from tests.loadgen.relays import BODY, HEAD, check, relaying, request, streamed
from vlmhyperbench_loadgen.relaying import MOST_BODY_BYTES, Relay, can_be_relayed
from vlmhyperbench_loadgen.tries import Try
from vlmhyperbench_sdk.stamps import STAMP_SPACE, ask_for_stamps, stamp_of

pytestmark = COMPILES


def test_the_next_request_follows_an_answer_at_once(tmp_path: Path) -> None:
    with relaying(tmp_path, requests=3) as one:
        one.far.sendall(streamed("first"))
        assert one.wait() == []
        assert one.far.recv(1000) == HEAD + b"100\r\n\r\n" + BODY
        assert [done.place for done in one.finished] == [0]
        state = one.relay.state(one.near.fileno())
        assert (state.begun, state.place, state.sent) == (1, 1, len(HEAD) + 7 + 100)
        assert one.finished[0].sent_ns is not None
        assert one.finished[0].sent_ns <= state.scheduled_ns <= state.sent_ns
        assert one.learn().text == "first"
        assert one.relay.take(5) == Try(request=request(2), number=1, scheduled_ns=0, stream=5, place=2)
        assert one.relay.take(5) is None


def test_a_free_stream_is_told_and_says_since_when(tmp_path: Path) -> None:
    with relaying(tmp_path, requests=1) as one:
        one.far.sendall(streamed("only"))
        assert one.wait() == [(one.near.fileno(), select.EPOLLIN)]
        state = one.relay.state(one.near.fileno())
        assert (state.begun, state.place, state.scheduled_ns) == (0, -1, one.finished[0].end_ns)


def connect() -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        return near, server.accept()[0]


def test_where_a_read_has_no_stamp_the_next_request_is_due_when_the_end_was_seen(tmp_path: Path) -> None:
    stamped, sender = connect()
    with stamped, sender, relaying(tmp_path, requests=2, sockets=connect()) as one:
        if not ask_for_stamps(stamped):
            pytest.skip("this system does not stamp")
        # The kernel begins to stamp some time after the first socket asked for it.
        for _ in range(100_000):
            sender.sendall(b"x")
            if stamp_of(stamped.recvmsg(1, STAMP_SPACE)[1]):
                break
        for part in (streamed("first")[:100], streamed("first")[100:]):
            one.far.sendall(part)
            assert select.select([one.near], [], [], 10.0)[0]
            one.wait()
            ask_for_stamps(one.near)
        (done,) = one.finished
        assert done.reply is not None
        assert (len(done.reply.times), len(done.reply.stamps)) == (2, 1)
        one.learn()
        assert one.relay.state(one.near.fileno()).scheduled_ns == done.end_ns


@pytest.mark.parametrize("is_gone", [False, True], ids=["full", "gone"])
def test_a_request_that_does_not_leave_is_handed_over(tmp_path: Path, is_gone: bool) -> None:
    with relaying(tmp_path, requests=2) as one:
        one.far.sendall(streamed("first"))
        if is_gone:
            one.far.shutdown(socket.SHUT_RD)
        else:
            with suppress(BlockingIOError):
                one.near.send(b"x" * 100_000_000)
                one.near.send(b"x")
        assert [fd for fd, _ in one.wait()] == [one.near.fileno()]
        assert [done.place for done in one.finished] == [0]
        state = one.relay.state(one.near.fileno())
        assert (state.begun, state.place) == (1, 1)
        assert state.sent < 0 if is_gone else state.sent == 0


def test_an_answer_that_was_read_twice_is_known_the_third_time(tmp_path: Path) -> None:
    with relaying(tmp_path, requests=6) as one:
        for number in range(5):
            answer = streamed("other" if number == 3 else "same")
            one.far.sendall(answer.replace(b"0123456789", b"%010d" % number))
            one.wait()
            while one.finished:
                one.learn()
        assert [row[1] for row in one.rows] == [2, 4]
        known, last = one.rows
        assert known[23] == last[23] == "same"
        assert (known[6], known[25]) == (3, f"{2:064d}")
        assert known[14] == known[13] == int.from_bytes(cast("bytes", known[9])[:8], sys.byteorder)


@pytest.mark.parametrize("text", ["sane", "Same", "sam", 's"me'])
def test_what_differs_anywhere_but_in_its_id_is_read(tmp_path: Path, text: str) -> None:
    with relaying(tmp_path, requests=5) as one:
        for said in ("same", "same", text):
            one.far.sendall(streamed(said))
            one.wait()
            assert one.learn().text == said
        assert one.rows == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("relay")


WHOLE = streamed("some words")


@st.composite
def answers(draw: st.DrawFn) -> list[bytes]:
    """An answer, perhaps spoilt in places, in the pieces in which it arrives."""
    data = bytearray(WHOLE + draw(st.sampled_from([b"", b"", b"more", b"\r\n\r\n", b"0\r\n\r\n"])))
    for _ in range(draw(st.integers(0, 2))):
        start = draw(st.integers(0, len(data)))
        data[start : start + draw(st.integers(0, 3))] = draw(st.sampled_from([b"", b"0", b"f", b"\r\n", b"\r", b"x"]))
    cuts = sorted(draw(st.sets(st.integers(1, len(data) - 1), max_size=6)))
    return [bytes(data[start:end]) for start, end in itertools.pairwise([0, *cuts, len(data)])]


@given(answers())
@example([WHOLE])
@example([WHOLE[:-3], WHOLE[-3:]])
def test_what_is_relayed_is_whole_and_of_what_is_not_nothing_is_lost(folder: Path, pieces: list[bytes]) -> None:
    check(folder, [pieces])


@given(st.lists(answers(), max_size=6))
@example([[streamed("same").replace(b"0123456789", b"%010d" % number)] for number in range(4)])
def test_answers_one_after_the_other_say_what_each_of_them_says(folder: Path, said: list[list[bytes]]) -> None:
    check(folder, said)


def test_an_id_that_could_be_more_than_an_id_is_not_blotted_out(tmp_path: Path) -> None:
    with relaying(tmp_path, requests=5) as one:
        for identity in (b"0123456789", b"9876543210", b'01234"6789', b"01234\x006789"):
            one.far.sendall(streamed("same").replace(b"0123456789", identity))
            one.wait()
            while one.finished:
                one.learn()
        assert one.rows == []


def test_bodies_outside_their_file_are_refused(tmp_path: Path) -> None:
    with relaying(tmp_path, requests=2) as one:
        for changes in ({"body_offset": 150}, {"body_offset": -1}, {"body_bytes": -1}, {"body_bytes": 2**62}):
            wrong = Relay(one.receiver, [request(0, **changes)], finish=list, report=lambda rows, stamped: None)
            assert not wrong.begin(tmp_path / "bodies.bin", HEAD)
        assert not wrong.begin(tmp_path / "missing.bin", HEAD)


def test_what_has_a_stream_a_pause_or_a_long_body_is_not_relayed() -> None:
    assert can_be_relayed(request(0))
    assert not can_be_relayed(request(0, stream=0))
    assert not can_be_relayed(request(0, think_ns=1))
    assert not can_be_relayed(request(0, body_bytes=MOST_BODY_BYTES + 1))
