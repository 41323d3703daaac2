"""Jobs of an experiment that share devices: ordered so that all of them end soon, and never held back by a sibling."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared.domain.builders_of_jobs import NOW, device_now, worker_now
from vlmhyperbench.domain.needs import UNKNOWN, MemoryNeed
from vlmhyperbench.domain.paces import Pace
from vlmhyperbench.domain.packing import Piece, Shelf, best_order
from vlmhyperbench.domain.scheduling import Assign, RunningJob, WaitingJob, Window, decide
from vlmhyperbench.domain.steps import StepKind

TWO = (Shelf(bytes=24, slots=12), Shelf(bytes=24, slots=12))


def job(target: str, answers: int = 1) -> WaitingJob:
    return WaitingJob(
        id=uuid4(), kind=StepKind.GENERATE, target_digest=target, is_timed=False, experiment_id=uuid4(), answers=answers
    )


def test_what_takes_long_starts_first_where_the_sizes_are_equal() -> None:
    pieces = [Piece(bytes=20, duration_s=duration) for duration in (1, 1, 5, 1, 1, 1)]
    assert 2 in best_order(pieces, TWO)[:2]


def test_a_better_order_than_any_simple_one_is_found() -> None:
    sizes = (16, 49), (13, 27), (6, 21), (2, 31), (18, 39), (4, 31), (19, 49), (3, 56), (14, 20), (16, 56), (15, 20)
    pieces = [Piece(bytes=size, duration_s=duration) for size, duration in sizes]
    simple, searched = best_order(pieces, TWO, max_work=0), best_order(pieces, TWO)
    assert simple == sorted(range(len(pieces)), key=lambda no: -pieces[no].bytes * pieces[no].duration_s)
    assert searched != simple
    assert searched == best_order(pieces, TWO)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 100)), max_size=40),
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 3)), max_size=6),
)
def test_every_job_is_in_the_order_once_whatever_is_known(
    jobs: list[tuple[int, int]], devices: list[tuple[int, int]]
) -> None:
    pieces = [Piece(bytes=size, duration_s=duration) for size, duration in jobs]
    shelves = [Shelf(bytes=size, slots=slots, running=((3.0, 50),)) for size, slots in devices]
    assert sorted(best_order(pieces, shelves)) == list(range(len(pieces)))


def test_measured_paces_decide_which_of_two_models_of_one_size_starts() -> None:
    experiment = uuid4()
    fast, slow = (replace(job(name, answers=10), experiment_id=experiment) for name in ("fast", "slow"))
    third = replace(job("third"), experiment_id=experiment)
    memory = {name: MemoryNeed(device_bytes=60) for name in ("fast", "slow", "third")}
    window = Window(
        now=NOW,
        waiting=(fast, third, slow),
        workers=(worker_now(slots=4, devices=(device_now(),)),),
        memory=memory,
        paces={"fast": Pace(answer_s=0.1), "slow": Pace(answer_s=9.0), "third": Pace(answer_s=0.1)},
    )
    [first] = [decision for decision in decide(window, unclaimed_s=15) if isinstance(decision, Assign)]
    assert first.job_id == slow.id


def test_what_loads_long_starts_before_what_answers_slowly() -> None:
    experiment = uuid4()
    slow, heavy, third = (
        replace(job(name, answers=4), experiment_id=experiment) for name in ("slow", "heavy", "third")
    )
    window = Window(
        now=NOW,
        waiting=(slow, heavy, third),
        workers=(worker_now(slots=4, devices=(device_now(),)),),
        memory={name: MemoryNeed(device_bytes=60) for name in ("slow", "heavy", "third")},
        paces={"slow": Pace(answer_s=1.0), "heavy": Pace(answer_s=0.25, start_s=60.0), "third": Pace(answer_s=0.25)},
    )
    [first] = [decision for decision in decide(window, unclaimed_s=15) if isinstance(decision, Assign)]
    assert first.job_id == heavy.id


@pytest.mark.parametrize(
    ("other", "is_first", "smallest"),
    [
        (MemoryNeed(peaks={"card": 70}), True, 20),
        (MemoryNeed(device_bytes=10, peaks={"card": 70}), True, 20),
        (MemoryNeed(device_bytes=50, margin=1.5), True, 20),
        (MemoryNeed(device_bytes=10, device_share=0.7), True, 100),
        (MemoryNeed(device_bytes=10, device_share=0.7), False, 50),
        (UNKNOWN, True, 100),
    ],
    ids=["measured only", "measured", "margin", "share", "share of a smaller one", "unknown"],
)
def test_jobs_are_ordered_by_the_bytes_that_they_will_have(other: MemoryNeed, is_first: bool, smallest: int) -> None:
    experiment = uuid4()
    estimated, second = (replace(job(name), experiment_id=experiment) for name in ("estimated", "other"))
    window = Window(
        now=NOW,
        waiting=(estimated, second),
        workers=(worker_now(slots=4, devices=(device_now(), device_now(1, memory_bytes=smallest))),),
        memory={"estimated": MemoryNeed(device_bytes=60), "other": other},
        paces={"estimated": Pace(answer_s=1.0), "other": Pace(answer_s=1.0)},
    )
    started = [decision.job_id for decision in decide(window, unclaimed_s=15) if isinstance(decision, Assign)]
    assert (started[0] == second.id) == is_first


def test_jobs_for_which_there_is_no_device_are_ordered_too() -> None:
    packed = tuple(replace(job(name), experiment_id=UUID(int=1)) for name in ("a", "b"))
    assert decide(Window(now=NOW, waiting=packed, workers=(worker_now(),)), unclaimed_s=15)


def test_a_large_model_that_waits_long_holds_nothing_against_its_own_experiment_but_all_against_others() -> None:
    experiment = uuid4()
    large, small = (replace(job(name), experiment_id=experiment, waited_s=500) for name in ("large", "small"))
    stranger = job("small")
    device = replace(device_now(), reserved_bytes=50, jobs=1)
    worker = worker_now(slots=4, busy=1, devices=(device,))
    running = (RunningJob(worker_id=worker.id, device=device.no, bytes=50, target_digest="other", answers=5),)
    memory = {"large": MemoryNeed(device_bytes=80), "small": MemoryNeed(device_bytes=20)}

    def started(*waiting: WaitingJob) -> list[object]:
        window = Window(now=NOW, waiting=waiting, workers=(worker,), memory=memory, running=running)
        return [decision.job_id for decision in decide(window, unclaimed_s=15) if isinstance(decision, Assign)]

    assert started(large, small) == [small.id]
    assert started(large, stranger) == []
    assert started(large, small, stranger) == [small.id]
