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
    is_undisturbed,
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
        self._by_machine: dict[str, list[Inferring]] = defaultdict(list)
        self._by_gpu: dict[str, list[Inferring]] = defaultdict(list)
        for other in inferring:
            self._add(other)
        self._open: dict[str, dict[UUID, WorkerNow]] = defaultdict(dict)
        """Kind → workers that may still have room."""
        for worker in self._workers.values():
            if worker.busy < worker.slots and worker.drained is None and not self._is_taken(worker):
                self._open[worker.kind][worker.id] = worker
        self._ranked: dict[Shape, list[tuple[Rank, UUID]]] = {}

    def place(self, need: Need) -> Placement | None:
        """Choose a worker for a job as `placement.place` does, and take the room; None if there is none now."""
        workers = self._open[STEPS[need.kind].worker]
        ranked = self._ranked.get(need.shape)
        if ranked is None:
            ranked = [entry for worker in workers.values() if (entry := self._rank(need, worker)) is not None]
            heapq.heapify(ranked)
            self._ranked[need.shape] = ranked
        while ranked:
            known, worker_id = heapq.heappop(ranked)
            worker = workers.get(worker_id)
            entry = self._rank(need, worker) if worker is not None else None
            if entry is None or worker is None:
                continue
            if entry[0] != known:  # a rank only rises, so the first entry that is still true is the best
                heapq.heappush(ranked, entry)
                continue
            placement = Placement(worker_id=worker.id, queue=worker.queue, reservations=reserve(need, worker) or ())
            self._take(need, worker, placement)
            heapq.heappush(ranked, entry)
            return placement
        return None

    def hold(self, need: Need) -> UUID | None:
        """Keep the least busy worker that could take a job free of all later ones; return it, None if there is none."""
        fitting = [
            worker
            for worker in self._workers.values()
            if worker.kind == STEPS[need.kind].worker and reserve(need, idle(worker)) is not None
        ]
        best = min(fitting, key=lambda worker: (worker.busy, worker.queue, worker.id), default=None)
        if best is None:
            return None
        if need.is_timed:  # it waits for the ground, which other workers may share
            for worker in self._workers.values():
                if not worker.ground.is_apart_from(best.ground):
                    self._close(worker)
        self._close(best)
        return best.id

    def _rank(self, need: Need, worker: WorkerNow) -> tuple[Rank, UUID] | None:
        reservations = reserve(need, worker)
        if reservations is None or not is_undisturbed(need, worker, self._near(worker.ground)):
            return None
        return rank(need, worker, reservations), worker.id

    def _take(self, need: Need, worker: WorkerNow, placement: Placement) -> None:
        taken = self._workers[worker.id] = self._open[worker.kind][worker.id] = occupied(worker, placement)
        if STEPS[need.kind].asks is not None:
            self._add(Inferring(worker_id=worker.id, ground=worker.ground, is_timed=need.is_timed))
            if need.is_timed:
                self._close(taken)
        if taken.busy >= taken.slots:
            self._close(taken)

    def _close(self, worker: WorkerNow) -> None:
        self._open[worker.kind].pop(worker.id, None)

    def _add(self, other: Inferring) -> None:
        self._by_machine[other.ground.machine].append(other)
        for gpu in other.ground.gpus:
            self._by_gpu[gpu].append(other)

    def _near(self, ground: Ground) -> list[Inferring]:
        """Return what may infer on ground that is not apart."""
        near = list(self._by_machine.get(ground.machine, ()))
        for gpu in ground.gpus:
            near += self._by_gpu.get(gpu, ())
        return near

    def _is_taken(self, worker: WorkerNow) -> bool:
        """Return whether an inference that is timed runs on a worker itself, so that nothing can join it."""
        return any(other.is_timed and other.worker_id == worker.id for other in self._near(worker.ground))
