"""The shortest schedule of jobs that share the memory of equal devices, by an exhaustive search with bounds.

A job has a size and a duration, is on one device, and is never interrupted. All divisions of the jobs between two
devices are searched, and for each device all schedules in which a job starts when another one ends: any other schedule
can be shifted to the left until it is one of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Item:
    """A job."""

    size: int
    duration: int


def best_makespan(items: Sequence[Item], capacity: int, *, at_most: int) -> int:
    """Return the shortest time in which two devices do all jobs; `at_most` is one in which it is possible."""
    count, everything = len(items), (1 << len(items)) - 1
    best = at_most

    @cache
    def bound(chosen: int) -> int:
        return _bound([items[no] for no in range(count) if chosen >> no & 1], capacity)

    # The first job is on the first device: the devices are equal.
    divisions = sorted(range(1, everything + 1, 2), key=lambda chosen: max(bound(chosen), bound(everything ^ chosen)))
    floor = max(bound(divisions[0]), bound(everything ^ divisions[0]))
    for chosen in divisions:
        if max(bound(chosen), bound(everything ^ chosen)) >= best or best == floor:
            break
        longest = 0
        for part in (chosen, everything ^ chosen):
            own = [items[no] for no in range(count) if part >> no & 1]
            longest = max(longest, _shortest(own, capacity, best))
            if longest >= best:
                break
        best = min(best, longest)
    return best


def _bound(items: Sequence[Item], capacity: int) -> int:
    """Return a time below which one device cannot do all jobs: their area, and those that exclude each other."""
    if not items:
        return 0
    area = -(-sum(item.size * item.duration for item in items) // capacity)
    large = sum(item.duration for item in items if 2 * item.size > capacity)
    half = sorted((item.duration for item in items if 2 * item.size == capacity), reverse=True)
    return max(area, large + -(-sum(half) // 2), max(item.duration for item in items))


def _shortest(items: Sequence[Item], capacity: int, best: int) -> int:
    """Return the shortest time of one device if it is below `best`, or else `best`.

    At each instant at which a job ends, every set of jobs that fits is started, the empty one too.
    """
    floor, found = _bound(items, capacity), best
    seen: dict[tuple[tuple[Item, ...], tuple[Item, ...]], int] = {}

    def search(left: tuple[Item, ...], running: tuple[Item, ...], now: int, first: int) -> None:
        """Go on from an instant; `running` have their remaining durations, jobs before `first` are not started now."""
        nonlocal found
        if found == floor:
            return
        if not left:
            found = min(found, now + max((item.duration for item in running), default=0))
            return
        if now + _bound((*left, *running), capacity) >= found:
            return
        free = capacity - sum(item.size for item in running)
        for no in range(first, len(left)):
            if left[no].size <= free and (no == first or left[no] != left[no - 1]):
                search((*left[:no], *left[no + 1 :]), (*running, left[no]), now, no)
        if running:
            step = min(item.duration for item in running)
            rest = [Item(item.size, item.duration - step) for item in running if item.duration > step]
            key = left, tuple(sorted(rest, key=lambda item: (item.size, item.duration)))
            if seen.get(key, best + 1) > now + step:
                seen[key] = now + step
                search(left, key[1], now + step, 0)

    search(tuple(sorted(items, key=lambda item: (-item.size, -item.duration))), (), 0, 0)
    return found
