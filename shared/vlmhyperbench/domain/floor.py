"""The workers during one decision of the scheduler: each placement takes room that later ones do not have. Pure.

`place` answers for one job; this gives the same answer for many, with hundreds of workers, in milliseconds.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from uuid import UUID

from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.needs import Need, Shape
from vlmhyperbench.domain.placement import (
    Inferring,
    Placement,
    Rank,
    WorkerNow,
    idle,
    occupied,
    rank,
    reserve,
)
from vlmhyperbench.domain.steps import STEPS


class Floor:
    """Workers and inferences, changed by each placement; a decision makes one and drops it."""

    def __init__(self, workers: Iterable[WorkerNow], inferring: Iterable[Inferring]) -> None:
        """Take the workers that may get jobs, and what infers already."""
        self._workers = {worker.id: worker for worker in workers}
        self._near: dict[str, list[UUID]] = defaultdict(list)
        """Machine or GPU → workers on it; all others are apart from what is there."""
        for worker in self._workers.values():
            for place in _places(worker.ground):
                self._near[place].append(worker.id)
        free = [worker for worker in self._workers.values() if worker.busy < worker.slots and worker.drained is None]
        self._open: dict[str, dict[UUID, WorkerNow]] = defaultdict(dict)
        """Kind → workers that may still have room, for jobs that are not timed."""
        for worker in free:
            self._open[worker.kind][worker.id] = worker
        self._quiet = {worker.id for worker in free}
        """Workers on whose ground nothing infers, for timed jobs."""
        self._ranked: dict[Shape, list[tuple[Rank, UUID]]] = {}
        self._asked: dict[str, bool] = {}
        """Server that is not run by the platform and is asked now → whether the speed of an answer counts."""
        for other in inferring:
            self._disturb(other.ground, is_timed=other.is_timed)
            for server in other.servers:
                self._ask(server, is_timed=other.is_timed)

    def place(self, need: Need) -> Placement | None:
        """Choose a worker for a job as `placement.place` does, and take the room; None if there is none now."""
        if self._is_asked(need):
            return None
        kind = STEPS[need.kind].worker
        workers, is_careful = self._open[kind], need.is_timed and STEPS[need.kind].asks is not None
        ranked = self._ranked.get(need.shape)
        if ranked is None:
            fitting = [workers[each] for each in self._quiet if each in workers] if is_careful else workers.values()
            ranked = [entry for worker in fitting if (entry := _entry(need, worker)) is not None]
            heapq.heapify(ranked)
            self._ranked[need.shape] = ranked
        while ranked:
            known, worker_id = heapq.heappop(ranked)
            worker = workers.get(worker_id)
            if worker is None or (is_careful and worker_id not in self._quiet):
                continue
            reservations = reserve(need, worker)
            if reservations is None:
                continue
            entry = rank(need, worker, reservations), worker_id
            heapq.heappush(ranked, entry)
            if entry[0] != known:  # a rank only rises, so the first entry that is still true is the best
                continue
            placement = Placement(worker_id=worker.id, queue=worker.queue, reservations=reservations)
            self._take(need, worker, placement)
            return placement
        return None

    def hold(self, need: Need) -> UUID | None:
        """Keep the least busy worker that could take a job free of all later ones; return it, None if there is none.

        Of a job whose server is asked, the server is kept, and the workers are not.
        """
        if need.server is not None and self._is_asked(need):
            self._ask(need.server, is_timed=True)
            return None
        fitting = filter(lambda worker: _could_take(need, worker), self._workers.values())
        best = min(fitting, key=lambda worker: (worker.busy, worker.queue, worker.id), default=None)
        if best is None:
            return None
        if need.is_timed:  # it waits for the ground, which other workers may share
            self._disturb(best.ground, is_timed=True)
        self._close(best.id)
        return best.id

    def can_hold(self, need: Need) -> bool:
        """Return whether there is a worker that `hold` would keep."""
        return not self._is_asked(need) and any(_could_take(need, worker) for worker in self._workers.values())

    def _take(self, need: Need, worker: WorkerNow, placement: Placement) -> None:
        taken = self._workers[worker.id] = self._open[worker.kind][worker.id] = occupied(worker, placement)
        if STEPS[need.kind].asks is not None:
            self._disturb(worker.ground, is_timed=need.is_timed)
            if need.server is not None:
                self._ask(need.server, is_timed=need.is_timed)
        if taken.busy >= taken.slots:
            self._close(taken.id)

    def _is_asked(self, need: Need) -> bool:
        """Return whether a job and what asks its server already would spoil each other's times."""
        is_timed = None if need.server is None else self._asked.get(need.server)
        return is_timed is not None and (is_timed or need.is_timed)

    def _ask(self, server: str, *, is_timed: bool) -> None:
        self._asked[server] = is_timed or self._asked.get(server, False)

    def _disturb(self, ground: Ground, *, is_timed: bool) -> None:
        """Take the workers out of the choice that must not infer beside an inference on this ground."""
        for worker_id in {worker_id for place in _places(ground) for worker_id in self._near.get(place, ())}:
            worker = self._workers[worker_id]
            if worker.kind not in _INFERRING or ground.is_apart_from(worker.ground):
                continue
            self._quiet.discard(worker_id)
            if is_timed:
                self._close(worker_id)

    def _close(self, worker_id: UUID) -> None:
        self._open[self._workers[worker_id].kind].pop(worker_id, None)


_INFERRING = frozenset(step.worker for step in STEPS.values() if step.asks is not None)


def _places(ground: Ground) -> tuple[str, ...]:
    return (ground.machine, *ground.gpus)


def _could_take(need: Need, worker: WorkerNow) -> bool:
    """Return whether a worker could take a job if it were idle."""
    return worker.kind == STEPS[need.kind].worker and reserve(need, idle(worker)) is not None


def _entry(need: Need, worker: WorkerNow) -> tuple[Rank, UUID] | None:
    reservations = reserve(need, worker)
    return None if reservations is None else (rank(need, worker, reservations), worker.id)
