"""The cores of a machine are divided so that two workers share no physical core."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.domain.shares import divide_cores


def of(*pairs: tuple[int, ...]) -> list[frozenset[int]]:
    return [frozenset(pair) for pair in pairs]


EIGHT = of(*((core,) for core in range(8)))
TWO_NODES = {core: core // 4 for core in range(8)}


def test_each_worker_gets_neighbouring_cores_and_the_first_get_what_is_left() -> None:
    assert divide_cores(EIGHT, {}, [None] * 3) == of((0, 1, 2), (3, 4, 5), (6, 7))


def test_hardware_threads_of_one_core_stay_together() -> None:
    assert divide_cores(of((0, 4), (1, 5), (2, 6), (3, 7)), {}, [None, None]) == of((0, 1, 4, 5), (2, 3, 6, 7))


def test_a_worker_gets_the_cores_near_its_device() -> None:
    assert divide_cores(EIGHT, TWO_NODES, [1, 0, 1]) == of((4, 5), (0, 1, 2, 3), (6, 7))


def test_a_worker_without_a_preference_goes_where_most_cores_are_left() -> None:
    assert divide_cores(EIGHT, TWO_NODES, [0, None]) == of((0, 1, 2, 3), (4, 5, 6, 7))
    assert divide_cores(EIGHT, TWO_NODES, [0, 7]) == of((0, 1, 2, 3), (4, 5, 6, 7))  # no such node


def test_where_a_node_has_too_few_cores_all_are_divided_alike() -> None:
    nodes = {0: 0, 1: 1, 2: 1, 3: 1}
    assert divide_cores(EIGHT[:4], nodes, [0, 0]) == of((0, 1), (2, 3))


def test_fewer_cores_than_workers_are_not_divided() -> None:
    assert divide_cores(EIGHT[:2], {}, [None] * 3) is None


@given(
    cores=st.integers(1, 24),
    threads=st.integers(1, 2),
    nodes=st.integers(1, 4),
    wanted=st.lists(st.none() | st.integers(0, 4), min_size=1, max_size=12),
)
def test_no_core_is_given_twice_and_none_is_left(
    cores: int, threads: int, nodes: int, wanted: list[int | None]
) -> None:
    physical = [frozenset(range(core * threads, (core + 1) * threads)) for core in range(cores)]
    node_of = {thread: core % nodes for core, pair in enumerate(physical) for thread in pair}
    divided = divide_cores(physical, node_of, wanted)
    assert (divided is None) == (cores < len(wanted))
    if divided is None:
        return
    assert all(divided)
    assert sum(map(len, divided)) == len(frozenset().union(*divided)) <= cores * threads
    for share in divided:  # whole cores only
        assert all(pair <= share or pair.isdisjoint(share) for pair in physical)
