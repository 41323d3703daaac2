"""Divide the cores of a machine among its inference workers, near to their devices. Pure.

Two workers measure at the same time only if they share no core, so no physical core is given to two of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence


def divide_cores(
    cores: Sequence[frozenset[int]], nodes: Mapping[int, int], wanted: Sequence[int | None]
) -> list[frozenset[int]] | None:
    """Return the cores of each worker, all from the node of its devices if that has enough; None if there are too few.

    Args:
        cores: physical cores, each as its hardware threads.
        nodes: hardware thread → NUMA node; a thread without an entry belongs to node 0.
        wanted: for each worker, the node of its devices; None: it has no preference.
    """
    if len(cores) < len(wanted):
        return None
    by_node: dict[int, list[frozenset[int]]] = defaultdict(list)
    for core in sorted(cores, key=min):
        by_node[nodes.get(min(core), 0)].append(core)
    workers: dict[int, list[int]] = defaultdict(list)
    for number, node in enumerate(wanted):
        if node in by_node:
            workers[node].append(number)
    for number, node in enumerate(wanted):
        if node not in by_node:  # to the node on which a worker gets the most cores
            workers[max(sorted(by_node), key=lambda other: len(by_node[other]) / (len(workers[other]) + 1))].append(
                number
            )
    if any(len(by_node[node]) < len(numbers) for node, numbers in workers.items()):
        by_node, workers = {0: sorted(cores, key=min)}, {0: list(range(len(wanted)))}  # nodes cannot be respected
    given: dict[int, frozenset[int]] = {}
    for node, numbers in workers.items():
        for place, number in enumerate(numbers):
            given[number] = _piece(by_node[node], place, len(numbers))
    return [given[number] for number in range(len(wanted))]


def _piece(cores: Sequence[frozenset[int]], place: int, pieces: int) -> frozenset[int]:
    """Return the hardware threads of one of `pieces` runs of neighbouring cores; the first ones may have one more."""
    size, longer = divmod(len(cores), pieces)
    start = place * size + min(place, longer)
    return frozenset().union(*cores[start : start + size + (place < longer)])
