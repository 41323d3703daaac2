"""Placement: the worker and the devices of a job."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shared.domain.builders_of_jobs import device_now, worker_now
from tests.support.wording import Wording
from vlmhyperbench.domain.floor import Floor
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.needs import MEASURED_MARGIN, MemoryNeed, Need
from vlmhyperbench.domain.placement import Inferring, Reservation, WorkerNow, occupied, place
from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench.domain.unfit import why_unfit


def timed(target: str | None = "t", *, devices: int = 1, memory: MemoryNeed | None = None) -> Need:
    return Need(kind=StepKind.GENERATE, target_digest=target, devices=devices, memory=memory or MemoryNeed())


def shared(needed: int | None, target: str = "t", *, devices: int = 1) -> Need:
    memory = MemoryNeed(device_bytes=None if needed is None else needed * devices)
    return Need(kind=StepKind.GENERATE, target_digest=target, is_timed=False, devices=devices, memory=memory)


@pytest.mark.parametrize("kind", list(StepKind))
def test_a_job_goes_to_the_kind_of_worker_that_does_it(kind: StepKind) -> None:
    workers = [worker_now(name, queue=name) for name in ("inference", "evaluation", "reporting")]
    placement = place(Need(kind=kind), workers)
    assert placement is not None
    assert placement.queue == STEPS[kind].worker


def test_a_worker_whose_slots_are_full_gets_nothing() -> None:
    assert place(Need(kind=StepKind.SCORE), [worker_now("evaluation", slots=2, busy=2)]) is None


def test_a_worker_whose_devices_are_taken_gets_nothing() -> None:
    worker = worker_now(slots=2, devices=(device_now(is_free=False),))
    assert place(timed(), [worker]) is None
    assert place(shared(0), [worker]) is None


def test_a_job_of_unknown_memory_has_a_whole_device_alone() -> None:
    worker = worker_now(slots=2, devices=(device_now(0, memory_bytes=40), device_now(1, memory_bytes=80)))
    for need in (timed(), shared(None)):
        placement = place(need, [worker])
        assert placement is not None
        assert placement.reservations == (Reservation(device=0, bytes=40, is_exclusive=True),)


def test_a_timed_job_is_alone_and_an_untimed_one_shares() -> None:
    worker = worker_now(slots=4, devices=(device_now(memory_bytes=100),))
    first = place(shared(40, "a"), [worker])
    assert first is not None
    assert first.reservations == (Reservation(device=0, bytes=40, is_exclusive=False),)
    busy = occupied(worker, first)
    assert place(timed(memory=MemoryNeed(device_bytes=1)), [busy]) is None
    assert place(shared(60, "b"), [busy]) is not None
    assert place(shared(61, "b"), [busy]) is None


def test_a_target_that_runs_elsewhere_reserves_nothing() -> None:
    worker = worker_now(devices=(device_now(is_free=False),))
    placement = place(timed(devices=0), [worker])
    assert placement is not None
    assert placement.reservations == ()


def test_a_pinned_model_leaves_its_device_only_to_a_job_that_is_alone() -> None:
    device = replace(device_now(memory_bytes=100), pinned=(("pinned", 60),))
    worker = worker_now(slots=4, devices=(device,))
    assert place(shared(50), [worker]) is None
    assert place(shared(40), [worker]) is not None
    assert place(shared(60, "pinned"), [worker]) is not None  # it uses the loaded one
    assert place(shared(None), [worker]) is not None
    assert place(timed(memory=MemoryNeed(device_bytes=100)), [worker]) is not None
    assert why_unfit(shared(50), [worker]) is None  # it may be unpinned


def test_a_gang_has_devices_of_one_worker() -> None:
    singles = [worker_now(devices=(device_now(),), queue=name) for name in "ab"]
    assert place(timed(devices=2), singles) is None
    pair = worker_now(devices=(device_now(0), device_now(1), device_now(2, is_free=False)), queue="z")
    placement = place(timed(devices=2), [*singles, pair])
    assert placement is not None
    assert (placement.queue, [held.device for held in placement.reservations]) == ("z", [0, 1])


def test_an_estimate_is_divided_over_the_devices_and_gets_its_margin() -> None:
    need = timed(devices=2, memory=MemoryNeed(device_bytes=100, host_bytes=30, margin=1.2))
    assert need.bytes_on(device_now()) == 60
    on_processor = replace(device_now(), is_accelerator=False)
    assert replace(need, devices=1).bytes_on(on_processor) == 156


def test_an_engine_that_takes_a_share_of_a_device_needs_at_least_that() -> None:
    need = timed(memory=MemoryNeed(device_bytes=10, device_share=0.9))
    assert need.bytes_on(device_now(memory_bytes=100)) == 90


def test_what_was_measured_on_a_device_of_the_name_replaces_the_estimate() -> None:
    need = timed(memory=MemoryNeed(device_bytes=100, margin=2.0, peaks={"card": 200}))
    assert need.bytes_on(device_now(name="card")) == 200 * MEASURED_MARGIN
    assert need.bytes_on(device_now(name="other")) == 200


def test_a_worker_that_holds_the_target_is_preferred_to_an_idle_one() -> None:
    idle, loaded = worker_now(slots=4, queue="a"), worker_now(slots=4, busy=2, resident=("t",), queue="b")
    placement = place(timed(), [idle, loaded])
    assert placement is not None
    assert placement.worker_id == loaded.id


def test_the_emptiest_device_then_the_least_busy_worker_is_chosen() -> None:
    full = worker_now(slots=4, devices=(replace(device_now(), reserved_bytes=50, jobs=1),), queue="a")
    empty = worker_now(slots=4, devices=(device_now(),), queue="b")
    placement = place(shared(10), [full, empty])
    assert placement is not None
    assert placement.queue == "b"
    workers = [worker_now("evaluation", slots=4, busy=3), worker_now("evaluation", slots=4, busy=1)]
    least = place(Need(kind=StepKind.INDEX), workers)
    assert least is not None
    assert least.worker_id == workers[1].id


def test_ties_are_broken_by_queue_so_that_a_decision_can_be_repeated() -> None:
    first, second = worker_now(queue="a", worker_id=UUID(int=2)), worker_now(queue="b", worker_id=UUID(int=1))
    assert place(timed(), [first, second]) == place(timed(), [second, first])


@pytest.mark.parametrize(
    "worker",
    [
        worker_now(devices=(replace(device_now(), drained="by me: fans"),)),
        worker_now(devices=(replace(device_now(), is_broken=True),)),
        replace(worker_now(devices=(device_now(),)), drained="by me: fans"),
    ],
)
def test_what_is_drained_or_broken_gets_nothing(worker: WorkerNow) -> None:
    assert place(timed(), [worker]) is None
    assert why_unfit(timed(), [worker]) is None  # it may come back


def test_a_job_that_fits_no_known_device_is_told_need_have_and_cure(wording: Wording) -> None:
    gib = 1024**3
    workers = [worker_now(devices=(device_now(memory_bytes=size * gib),)) for size in (16, 24)]
    memory = MemoryNeed(device_bytes=30 * gib, knobs=("n_ctx", "parallel"), margin=1.2)
    reason = why_unfit(timed(memory=memory), workers)
    assert reason is not None
    wording(reason)
    measured = why_unfit(timed(memory=replace(memory, peaks={"card": 30 * gib}, knobs=())), workers)
    assert measured is not None
    wording(measured)
    wide = why_unfit(timed(devices=2), workers)
    assert wide is not None
    wording(wide)
    pair = worker_now(devices=(device_now(0, memory_bytes=8 * gib), device_now(1, memory_bytes=16 * gib)))
    each = why_unfit(timed(devices=2, memory=memory), [pair])
    assert each is not None
    wording(each)
    assert why_unfit(timed(memory=memory), []) is None


def test_only_simulated_engines_are_placed_on_declared_accelerators(wording: Wording) -> None:
    gpu = replace(device_now(memory_bytes=100), is_declared=True)
    declared, real = worker_now(queue="declared", devices=(gpu,)), worker_now(queue="real", devices=(device_now(),))
    processor = worker_now(queue="processor", devices=(replace(gpu, is_accelerator=False),))
    simulated = replace(timed(), is_simulated=True)
    assert place(timed(), [declared]) is None
    for need, worker in ((timed(), real), (timed(), processor), (simulated, declared), (timed(devices=0), declared)):
        placement = place(need, [declared, worker])
        assert placement is not None
        assert placement.queue == worker.queue
    assert why_unfit(simulated, [declared]) is None
    assert why_unfit(timed(), [declared, real]) is None
    reason = why_unfit(timed(), [declared])
    assert reason is not None
    wording(reason)
    gib = 1024**3
    small = worker_now(devices=(device_now(memory_bytes=50 * gib),))
    huge = worker_now(devices=(replace(gpu, memory_bytes=100 * gib),))
    needs_more = why_unfit(timed(memory=MemoryNeed(device_bytes=90 * gib)), [huge, small])
    assert needs_more is not None
    assert "50.0 GiB" in needs_more
    assert "100" not in needs_more
    beyond = why_unfit(replace(simulated, memory=MemoryNeed(device_bytes=101)), [declared])
    assert beyond is not None
    assert "VLMHB_INVENTORY" not in beyond


OTHER = UUID(int=9)


def _inferring(ground: Ground, *, is_timed: bool = True, worker_id: UUID = OTHER) -> Inferring:
    return Inferring(worker_id=worker_id, ground=ground, is_timed=is_timed)


def test_a_job_that_sends_requests_is_not_placed_on_a_machine_with_a_timed_inference() -> None:
    here, elsewhere = Ground(machine="a"), Ground(machine="b")
    busy = [_inferring(here)]
    assert place(timed(), [worker_now(ground=here)], busy) is None
    assert place(shared(1), [worker_now(ground=here)], busy) is None
    placement = place(timed(), [worker_now(ground=here), worker_now(ground=elsewhere, queue="z")], busy)
    assert placement is not None
    assert placement.queue == "z"


def test_untimed_jobs_infer_side_by_side_and_keep_timed_ones_away() -> None:
    here = Ground(machine="a")
    busy = [_inferring(here, is_timed=False)]
    assert place(shared(1), [worker_now(ground=here)], busy) is not None
    assert place(timed(), [worker_now(ground=here)], busy) is None


def test_one_server_is_asked_by_a_timed_job_alone_wherever_the_workers_are() -> None:
    here, elsewhere = Ground(machine="a"), Ground(machine="b")
    job, busy = replace(timed(), server="s:1", devices=0), [replace(_inferring(elsewhere), servers=frozenset({"s:1"}))]
    assert place(job, [worker_now(ground=here)], busy) is None
    assert place(replace(job, is_timed=False), [worker_now(ground=here)], busy) is None
    assert place(replace(job, server="s:2"), [worker_now(ground=here)], busy) is not None
    untimed = [replace(busy[0], is_timed=False)]
    assert place(job, [worker_now(ground=here)], untimed) is None
    assert place(replace(job, is_timed=False), [worker_now(ground=here)], untimed) is not None


def test_workers_whose_cores_are_apart_may_infer_at_once() -> None:
    low, high = (Ground(machine="a", cores=frozenset(cores)) for cores in ({0, 1}, {2, 3}))
    assert place(timed(), [worker_now(ground=high)], [_inferring(low)]) is not None
    assert place(timed(), [worker_now(ground=low)], [_inferring(low)]) is None


def test_a_worker_s_own_timed_inference_excludes_a_second_job() -> None:
    worker = worker_now(slots=2, busy=1, ground=Ground(machine="a"))
    assert place(shared(1), [worker], [_inferring(worker.ground, worker_id=worker.id)]) is None


@pytest.mark.parametrize("kind", [kind for kind in StepKind if STEPS[kind].asks is None])
def test_a_job_without_requests_is_placed_on_a_machine_with_an_inference(kind: StepKind) -> None:
    here = Ground(machine="a")
    assert place(Need(kind=kind), [worker_now(STEPS[kind].worker, ground=here)], [_inferring(here)]) is not None


def _workers() -> st.SearchStrategy[list[WorkerNow]]:
    devices = st.lists(st.integers(10, 100), max_size=3).map(
        lambda sizes: tuple(device_now(no, memory_bytes=size) for no, size in enumerate(sizes))
    )
    one = st.builds(
        lambda slots, cards, queue, machine, resident: worker_now(
            slots=slots, devices=cards, queue=queue, ground=Ground(machine=machine), resident=resident
        ),
        st.integers(1, 3),
        devices,
        st.sampled_from("abcd"),
        st.sampled_from("xyz"),
        st.lists(st.sampled_from("stu"), max_size=1).map(tuple),
    )
    return st.lists(one, max_size=5)


def _needs() -> st.SearchStrategy[list[Need]]:
    one = st.builds(
        lambda target, needed, devices, is_timed: replace(
            shared(needed, target, devices=devices), is_timed=is_timed, server={"t": "s:1", "u": "s:1"}.get(target)
        ),
        st.sampled_from("stu"),
        st.none() | st.integers(0, 60),
        st.integers(0, 2),
        st.booleans(),
    )
    return st.lists(one, max_size=12)


@given(_workers(), _needs())
def test_a_floor_gives_each_job_what_one_placement_after_the_other_gives(
    workers: list[WorkerNow], needs: list[Need]
) -> None:
    # Needs of one shape are equal in the product, because the memory belongs to the target.
    by_shape = {need.shape: need for need in needs}
    floor, now, busy = Floor(workers, []), {worker.id: worker for worker in workers}, list[Inferring]()
    for need in (by_shape[need.shape] for need in needs):
        placement = place(need, now.values(), busy)
        assert floor.place(need) == placement
        if placement is not None:
            worker = now[placement.worker_id]
            now[worker.id] = occupied(worker, placement)
            servers = frozenset({need.server} if need.server is not None else ())
            busy.append(Inferring(worker_id=worker.id, ground=worker.ground, is_timed=need.is_timed, servers=servers))


@given(_workers(), _needs())
def test_no_device_is_reserved_over_its_bytes_and_an_exclusive_job_is_alone(
    workers: list[WorkerNow], needs: list[Need]
) -> None:
    floor, held = Floor(workers, []), dict[tuple[UUID, int], list[Reservation]]()
    for need in needs:
        placement = floor.place(need)
        for reservation in placement.reservations if placement is not None else ():
            held.setdefault((placement.worker_id, reservation.device), []).append(reservation)  # type: ignore[union-attr]
    sizes = {(worker.id, device.no): device.memory_bytes for worker in workers for device in worker.devices}
    for key, reservations in held.items():
        assert sum(reservation.bytes for reservation in reservations) <= sizes[key]
        assert len(reservations) == 1 or not any(reservation.is_exclusive for reservation in reservations)
