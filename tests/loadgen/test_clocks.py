"""The kernel's instants on the monotonic clock, and when they are not trusted."""

from __future__ import annotations

import socket
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench_loadgen.clocks import to_monotonic
from vlmhyperbench_sdk.stamps import STAMP_SPACE, Reading, ask_for_stamps, read_clocks, stamp_of

MS = 1_000_000
WALL_NS = 1_700_000_000 * 1_000_000_000
BEGAN = Reading(1000 * MS, WALL_NS)


def at(monotonic_ns: int) -> int:
    return WALL_NS + monotonic_ns


def test_stamps_are_converted_to_the_monotonic_clock() -> None:
    stamps = [at(1001 * MS), at(1005 * MS)]
    assert to_monotonic(stamps, [1002 * MS, 1009 * MS], BEGAN, Reading(1010 * MS, WALL_NS)) == [1001 * MS, 1005 * MS]


def test_the_slew_of_the_wall_clock_is_taken_into_account() -> None:
    # Over 1 s the wall clock gains 0.2 ms: halfway it is 0.1 ms ahead.
    ended = Reading(2000 * MS, WALL_NS + MS // 5)
    assert to_monotonic([WALL_NS + 1500 * MS + MS // 10], [1500 * MS], BEGAN, ended) == [1500 * MS]


@pytest.mark.parametrize(
    ("stamps", "moved_ns"),
    [
        ([at(1001 * MS)], 1000 * MS),
        ([at(1001 * MS)], -MS),
        ([at(1003 * MS)], 0),
        ([at(999 * MS)], 0),
        ([at(1001 * MS), at(1000 * MS + 500_000)], 0),
    ],
    ids=["set_forward", "set_back", "after_its_read", "before_the_request", "out_of_order"],
)
def test_impossible_stamps_are_not_trusted(stamps: list[int], moved_ns: int) -> None:
    ended = Reading(1010 * MS, WALL_NS + moved_ns)
    assert to_monotonic(stamps, [1002 * MS] * len(stamps), BEGAN, ended) is None


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**7)), max_size=20))
def test_no_instant_lies_after_its_read(pairs: list[tuple[int, int]]) -> None:
    arrived = sorted(1000 * MS + step for step, _ in pairs)
    reads = [arrived_ns + late for arrived_ns, (_, late) in zip(arrived, pairs, strict=True)]
    converted = to_monotonic([at(arrived_ns) for arrived_ns in arrived], reads, BEGAN, Reading(3000 * MS, WALL_NS))
    assert converted == arrived


def test_the_kernel_stamps_what_a_socket_receives() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
        server.accept()[0] as peer,
    ):
        if not ask_for_stamps(client):
            pytest.skip("this system has no receive timestamps")
        # The kernel begins to stamp some time after the first socket asked for stamps.
        for _ in range(100_000):
            began = read_clocks()
            peer.sendall(b"hello")
            data, ancillary, _, _ = client.recvmsg(100, STAMP_SPACE)
            read_ns = time.monotonic_ns()
            if ancillary:
                break
        arrived = to_monotonic([stamp_of(ancillary)], [read_ns], began, read_clocks())
    assert data == b"hello"
    assert arrived is not None
    assert began.monotonic_ns - 30_000 <= arrived[0] <= read_ns
