"""Plans on paper: the scheduler's decisions, with time that only adds up."""

from __future__ import annotations

from uuid import UUID, uuid4

from tests.shared.domain.builders_of_jobs import device_now, worker_now
from vlmhyperbench.domain.needs import MemoryNeed
from vlmhyperbench.domain.paper_plan import PaperJob, plan_on_paper
from vlmhyperbench.domain.scheduling import WaitingJob
from vlmhyperbench.domain.steps import StepKind

EXPERIMENT = UUID(int=5)


def paper(target: str | None, seconds: float | None, *, is_timed: bool = True, devices: int = 1) -> PaperJob:
    job = WaitingJob(
        id=uuid4(),
        kind=StepKind.GENERATE,
        target_digest=target,
        is_timed=is_timed,
        devices=devices,
        experiment_id=EXPERIMENT,
    )
    return PaperJob(run=target or "answers", job=job, duration_s=seconds)


def needs(**sizes: int) -> dict[str, MemoryNeed]:
    return {target: MemoryNeed(device_bytes=size) for target, size in sizes.items()}


def test_timed_runs_follow_each_other_and_shared_ones_overlap() -> None:
    worker = worker_now(slots=4, devices=(device_now(),))
    timed = plan_on_paper([paper("a", 10), paper("b", 20)], [worker], needs(a=40, b=40))
    assert [(placed.run, placed.starts_s, placed.ends_s) for placed in timed.placements] == [
        ("a", 0, 10),
        ("b", 10, 30),
    ]
    assert timed.makespan_s == 30
    both = [paper(name, seconds, is_timed=False) for name, seconds in (("a", 10.0), ("b", 20.0))]
    shared = plan_on_paper(both, [worker], needs(a=40, b=40))
    assert shared.makespan_s == 20


def test_what_has_no_target_is_planned_too() -> None:
    plan = plan_on_paper([paper(None, 10, devices=0)], [worker_now(devices=(device_now(is_free=False),))], {})
    assert [(placed.run, placed.ends_s) for placed in plan.placements] == [("answers", 10)]


def test_times_after_an_unknown_duration_are_unknown() -> None:
    worker = worker_now(slots=4, devices=(device_now(),))
    plan = plan_on_paper([paper("a", None), paper("b", 20)], [worker], {})
    assert [(placed.run, placed.starts_s, placed.ends_s) for placed in plan.placements] == [
        ("a", 0, None),
        ("b", None, None),
    ]
    assert plan.makespan_s is None


def test_what_fits_no_device_is_refused_and_what_is_drained_waits() -> None:
    worker = worker_now(slots=4, devices=(device_now(memory_bytes=100),))
    jobs = [paper("large", 1), paper("large", 1), paper("small", 1), paper("gang", 1, devices=2)]
    plan = plan_on_paper(jobs, [worker], needs(large=200, small=10, gang=20))
    assert [placed.run for placed in plan.placements] == ["small"]
    assert [run for run, _ in plan.refused] == ["large", "gang", "large"]
    assert plan_on_paper([paper("a", 1)], [], {}).waiting == ("a",)


def test_a_run_stays_where_its_target_is_loaded() -> None:
    workers = [worker_now(slots=4, devices=(device_now(),), queue=name) for name in "ab"]
    jobs = [paper("x", 10), paper("y", 5), paper("y", 5), paper("x", 5)]
    plan = plan_on_paper(jobs, workers, {})
    where = {worker.id: worker.queue for worker in workers}
    assert [(placed.run, where[placed.placement.worker_id]) for placed in plan.placements] == [
        ("x", "a"),
        ("y", "b"),
        ("y", "b"),
        ("x", "a"),
    ]


def test_the_pace_of_a_model_is_learned_from_its_first_shard() -> None:
    worker = worker_now(slots=3, devices=(device_now(),))
    seconds = {"a": 10, "b": 1, "c": 5}
    jobs = [paper(name, seconds[name], is_timed=False) for name in "aabbcc"]
    plan = plan_on_paper(jobs, [worker], needs(a=40, b=50, c=60), {})
    # By their sizes, b would start before the second shard of a; that a is slow is known by then.
    assert [placed.run for placed in plan.placements] == ["c", "a", "c", "a", "b", "b"]
    assert plan.makespan_s == 20
