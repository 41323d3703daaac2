"""Over many decisions nothing starves: neither a gang, nor a large model, nor a job of one device."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shared.domain.builders_of_jobs import NOW, device_now, worker_now
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.needs import MemoryNeed
from vlmhyperbench.domain.placement import Inferring, WorkerNow, occupied
from vlmhyperbench.domain.scheduling import MAX_ASSIGNED, Assign, Refuse, WaitingJob, Window, decide
from vlmhyperbench.domain.steps import StepKind

HOLD_S = 120.0
TICK_S = 30.0


def job(target: str, *, devices: int = 1, is_timed: bool = False, waited_s: float = 0.0) -> WaitingJob:
    return WaitingJob(
        id=uuid4(),
        kind=StepKind.GENERATE,
        target_digest=target,
        devices=devices,
        is_timed=is_timed,
        waited_s=waited_s,
    )


def memory(**needed: int) -> dict[str, MemoryNeed]:
    return {target: MemoryNeed(device_bytes=size, knobs=("n_ctx",)) for target, size in needed.items()}


def started(*waiting: WaitingJob, workers: tuple[WorkerNow, ...], **needed: int) -> list[UUID]:
    window = Window(now=NOW, waiting=waiting, workers=workers, known=workers, memory=memory(**needed))
    return [decision.job_id for decision in decide(window, unclaimed_s=15) if isinstance(decision, Assign)]


def _half_full() -> WorkerNow:
    devices = (replace(device_now(), reserved_bytes=50, jobs=1),)
    return worker_now(slots=4, busy=1, devices=devices)


def test_a_job_without_room_lets_others_pass_until_it_has_waited_long() -> None:
    small = job("small")
    assert started(job("large"), small, workers=(_half_full(),), large=80, small=20) == [small.id]
    assert started(job("large", waited_s=HOLD_S), small, workers=(_half_full(),), large=80, small=20) == []
    early = job("large", waited_s=HOLD_S)  # what is before it in the order is not kept back by it
    assert started(small, early, workers=(_half_full(),), large=80, small=20) == [small.id]


def test_a_timed_job_that_has_waited_long_holds_the_whole_machine() -> None:
    here = Ground(machine="here")
    taken = replace(device_now(), reserved_bytes=10, jobs=1)
    first = worker_now(slots=4, busy=1, devices=(taken,), queue="a", ground=here)
    second = worker_now(slots=4, devices=(device_now(),), queue="b", ground=here)
    window = Window(
        now=NOW,
        waiting=(job("timed", is_timed=True, waited_s=HOLD_S), job("small")),
        workers=(first, second),
        inferring=(Inferring(worker_id=first.id, ground=here, is_timed=False),),
        memory=memory(timed=10, small=10),
    )
    assert decide(window, unclaimed_s=15) == []
    assert len(decide(window, unclaimed_s=15, hold_s=HOLD_S + 1)) == 1


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_job_that_waits_long_for_a_server_keeps_the_server_and_no_worker(*, is_packed: bool) -> None:
    near, far = (worker_now(slots=4, queue=name, ground=Ground(machine=name)) for name in "ab")
    asking = Inferring(worker_id=near.id, ground=near.ground, is_timed=is_packed, servers=frozenset({"s:1"}))
    first = replace(job("first", waited_s=HOLD_S), server="s:1", devices=0, is_timed=not is_packed)
    second = replace(job("second"), server="s:1", devices=0, experiment_id=uuid4())
    other = replace(job("other"), server="s:2", devices=0)
    window = Window(now=NOW, waiting=(first, second, other), workers=(near, far), inferring=(asking,))
    assert [decision.job_id for decision in decide(window, unclaimed_s=15)] == [other.id]
    early = replace(window, waiting=(replace(first, waited_s=0.0), second, other))
    started_now = [other.id] if is_packed else [second.id, other.id]
    assert [decision.job_id for decision in decide(early, unclaimed_s=15)] == started_now


def test_a_held_worker_leaves_the_others_open() -> None:
    gang, single = job("gang", devices=2, waited_s=HOLD_S), job("small")
    taken = replace(device_now(0), reserved_bytes=50, jobs=1)
    pair = worker_now(slots=4, busy=1, devices=(taken, device_now(1)), queue="a")
    other = worker_now(slots=4, devices=(device_now(),), queue="b")
    window = Window(
        now=NOW, waiting=(gang, single), workers=(pair, other), memory=memory(gang=120, small=10), known=(pair, other)
    )
    [assigned] = decide(window, unclaimed_s=15)
    assert isinstance(assigned, Assign)
    assert (assigned.job_id, assigned.placement.queue) == (single.id, "b")


def test_a_job_that_fits_only_a_worker_that_is_away_holds_nothing() -> None:
    here = worker_now(slots=4, devices=(device_now(memory_bytes=50),))
    away = worker_now(devices=(device_now(memory_bytes=200),))
    large, small = job("large", waited_s=HOLD_S), job("small")
    window = Window(
        now=NOW, waiting=(large, small), workers=(here,), known=(here, away), memory=memory(large=100, small=10)
    )
    assert [decision.job_id for decision in decide(window, unclaimed_s=15)] == [small.id]


def test_a_timed_job_does_not_keep_workers_from_jobs_that_ask_nothing() -> None:
    here = Ground(machine="here")
    worker = worker_now(devices=(device_now(),), ground=here)
    score = WaitingJob(id=uuid4(), kind=StepKind.SCORE)
    timed = job("timed", is_timed=True)
    assert started(timed, score, workers=(worker, worker_now("evaluation", ground=here)), timed=10) == [
        timed.id,
        score.id,
    ]


def test_one_decision_assigns_a_bounded_number_of_jobs() -> None:
    workers = tuple(worker_now(devices=(device_now(),), queue=f"{no:02}") for no in range(MAX_ASSIGNED + 4))
    jobs = [job(f"t{no}") for no in range(MAX_ASSIGNED + 2)]
    assert started(*jobs, workers=workers) == [waiting.id for waiting in jobs[:MAX_ASSIGNED]]


def test_a_job_that_fits_no_known_device_is_refused_once_a_larger_one_had_time_to_register() -> None:
    worker = worker_now(devices=(device_now(memory_bytes=100),))

    def decided(waited_s: float, *known: WorkerNow, joined_s: float = 500.0) -> list[object]:
        window = Window(
            now=NOW,
            waiting=(job("large", waited_s=waited_s),),
            workers=(worker,),
            known=(worker, *known),
            joined_s=joined_s,
            memory=memory(large=101),
        )
        return list(decide(window, unclaimed_s=15))

    assert decided(29.0) == []
    [refusal] = decided(30.0)
    assert isinstance(refusal, Refuse)
    assert "n_ctx" in refusal.message
    assert decided(30.0, worker_now(devices=(device_now(memory_bytes=200),))) == []  # was seen a short time ago
    assert decided(9000.0, joined_s=29.0) == []  # the first machine after a night: others are still starting
    assert len(decided(9000.0, joined_s=30.0)) == 1


def test_the_jobs_of_an_experiment_that_share_devices_start_with_the_largest() -> None:
    experiment = uuid4()
    small, large = (replace(job(target), experiment_id=experiment) for target in ("small", "large"))
    alone = replace(job("alone", is_timed=True), experiment_id=experiment)
    worker = worker_now(slots=4, devices=(device_now(),))
    assert started(small, large, workers=(worker,), small=30, large=60) == [large.id, small.id]
    other = worker_now(slots=4, devices=(device_now(),), queue="r")
    assert started(alone, small, large, workers=(worker, other), small=30, large=60)[0] == alone.id


@dataclass
class Cluster:
    """Ticks over declared devices: jobs start by `decide` and end after their duration."""

    workers: dict[UUID, WorkerNow]
    needed: dict[str, MemoryNeed]
    now_s: float = 0.0
    running: list[tuple[float, UUID, WaitingJob, Assign]] = field(default_factory=list)

    def tick(self, waiting: list[tuple[float, WaitingJob]], duration_s: float) -> set[UUID]:
        self.running = [entry for entry in self.running if entry[0] > self.now_s]
        load = dict(self.workers)
        for _, worker_id, _, assign in self.running:
            load[worker_id] = occupied(load[worker_id], assign.placement)
        inferring = tuple(
            Inferring(worker_id=worker_id, ground=self.workers[worker_id].ground, is_timed=running.is_timed)
            for _, worker_id, running, _ in self.running
        )
        jobs = {waits.id: replace(waits, waited_s=self.now_s - since) for since, waits in waiting}
        window = Window(
            now=NOW + timedelta(seconds=self.now_s),
            waiting=tuple(jobs.values()),
            workers=tuple(load.values()),
            known=tuple(load.values()),
            inferring=inferring,
            memory=self.needed,
        )
        begun = set()
        for decision in decide(window, unclaimed_s=15, hold_s=HOLD_S):
            assert isinstance(decision, Assign)
            begun.add(decision.job_id)
            entry = (self.now_s + duration_s, decision.placement.worker_id, jobs[decision.job_id], decision)
            self.running.append(entry)
        self.now_s += TICK_S
        return begun


SHAPES = {"small": (20, 1, False), "large": (90, 1, False), "gang": (150, 2, False), "timed": (10, 1, True)}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(sorted(SHAPES)), max_size=4), min_size=1, max_size=15),
    st.sampled_from([TICK_S, 3 * TICK_S, 7 * TICK_S]),
    st.booleans(),
)
def test_every_job_starts_whatever_keeps_arriving(
    arrivals: list[list[str]], duration_s: float, one_machine: bool
) -> None:
    """Arrivals repeat for ever, so that what is always overtaken would never start."""
    workers = [worker_now(slots=4, devices=(device_now(0), device_now(1)), queue="a")]
    if not one_machine:
        workers.append(worker_now(slots=4, devices=(device_now(0),), queue="b"))
    needed = memory(**{name: size for name, (size, _, _) in SHAPES.items()})
    cluster = Cluster({worker.id: worker for worker in workers}, needed)
    first = [job(name, devices=SHAPES[name][1], is_timed=SHAPES[name][2]) for name in sorted(SHAPES)]
    waiting = [(0.0, waits) for waits in first]
    unstarted = {waits.id for waits in first}
    for no in range(200):
        begun = cluster.tick(waiting, duration_s)
        unstarted -= begun
        if not unstarted:
            return
        waiting = [entry for entry in waiting if entry[1].id not in begun]
        # The newcomers are first in the order of the window as long as nobody has waited longer: as in SQL, by age.
        new = [job(name, devices=SHAPES[name][1], is_timed=SHAPES[name][2]) for name in arrivals[no % len(arrivals)]]
        waiting += [(cluster.now_s, waits) for waits in new]
    raise AssertionError(f"{len(unstarted)} of the first jobs never started")
