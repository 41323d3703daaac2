"""The order in which jobs that share devices start, so that all of them end soon. Pure.

Each order is tried on paper: a job starts on the emptiest device on which it fits, as placement does it, and ends after
the time that it is expected to take. The best of some simple orders is improved by moving one job at a time. The
draws are seeded and the tries limited, so that equal input gives an equal order, and a tick of the scheduler is short.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MAX_TRIES = 100
MAX_WORK = 300_000
"""Maximum of tries · jobs² · devices, which takes about 30 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A waiting job: its bytes of a device, and the seconds that it is expected to take."""

    bytes: int
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """A device: its bytes, the jobs that it may run at a time, and those that run, as (seconds left, bytes)."""

    bytes: int
    slots: int
    running: tuple[tuple[float, int], ...] = ()


def best_order(pieces: Sequence[Piece], shelves: Sequence[Shelf], *, max_work: int = MAX_WORK) -> list[int]:
    """Return the numbers of the jobs in the order in which they should be offered to the devices."""
    numbers = range(len(pieces))
    orders = [sorted(numbers, key=lambda no: key(pieces[no]), reverse=True) for key in _KEYS]
    tries = min(MAX_TRIES, max_work // max(1, len(pieces) ** 2 * len(shelves)))
    if tries < len(orders) or len(pieces) < 2:
        return orders[0]
    best_s, first = min((_makespan_s(order, pieces, shelves), no) for no, order in enumerate(orders))
    best = current = orders[first]
    draw = random.Random(len(pieces))  # noqa: S311 - no secret depends on it
    current_s = best_s
    for _ in range(tries - len(orders)):
        moved = list(current)
        moved.insert(draw.randrange(len(moved)), moved.pop(draw.randrange(len(moved))))
        time_s = _makespan_s(moved, pieces, shelves)
        if time_s <= current_s:  # an equal one is a new place to search from
            current, current_s = moved, time_s
        if time_s < best_s:
            best, best_s = moved, time_s
    return best


_KEYS: tuple[Callable[[Piece], float], ...] = (
    lambda piece: piece.bytes * piece.duration_s,
    lambda piece: piece.bytes,
    lambda piece: piece.duration_s,
    lambda piece: piece.bytes**2 * piece.duration_s,
    lambda piece: piece.bytes * piece.duration_s**2,
)
"""The first one is taken where there are too many jobs for a try."""


def _makespan_s(order: Sequence[int], pieces: Sequence[Piece], shelves: Sequence[Shelf]) -> float:
    """Return the time until the last job has ended; jobs that never fit count as if they took no time."""
    used = [sum(size for _, size in shelf.running) for shelf in shelves]
    slots = [shelf.slots - len(shelf.running) for shelf in shelves]
    ends = [(left_s, no, size) for no, shelf in enumerate(shelves) for left_s, size in shelf.running]
    heapq.heapify(ends)
    waiting, now_s = list(order), 0.0
    while True:
        still = []
        for number in waiting:
            size, chosen = pieces[number].bytes, -1
            for no, shelf in enumerate(shelves):
                if slots[no] > 0 and used[no] + size <= shelf.bytes and (chosen < 0 or used[no] < used[chosen]):
                    chosen = no
            if chosen < 0:
                still.append(number)
                continue
            used[chosen] += size
            slots[chosen] -= 1
            heapq.heappush(ends, (now_s + pieces[number].duration_s, chosen, size))
        waiting = still
        if not ends:
            return now_s
        now_s = ends[0][0]
        while ends and ends[0][0] <= now_s:
            _, no, size = heapq.heappop(ends)
            used[no] -= size
            slots[no] += 1
