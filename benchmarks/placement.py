"""Measure placement: how well models are packed, and how long a tick of the scheduler takes with a long queue.

Usage: python -m benchmarks.placement

The packing compares the decisions of the scheduler with the best schedule that an exhaustive search finds. A tick is
that of the scheduler's loop, on a Postgres and a Valkey of its own: what is assigned counts as claimed before the next.
"""

from __future__ import annotations

import asyncio
import gc
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import psutil
from rich.console import Console
from rich.table import Table
from sqlalchemy import text

from benchmarks.best_packing import Item, best_makespan
from benchmarks.parts import machine_load
from vlmhyperbench.db import experiments, memory, migrations, platform_numbers, runs, workers
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.leadership import Leadership
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.needs import MemoryNeed
from vlmhyperbench.domain.paper_plan import PaperJob, plan_on_paper
from vlmhyperbench.domain.placement import DeviceNow, WorkerNow
from vlmhyperbench.domain.scheduling import WaitingJob
from vlmhyperbench.domain.specs import DatasetSpec, ModelTarget, PromptSpec, RunSpec
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.local.postgres import Postgres
from vlmhyperbench.local.valkey import Valkey
from vlmhyperbench.monitoring.numbers import write_text
from vlmhyperbench.queues.ringing import Bell
from vlmhyperbench.runtime import open_runtime
from vlmhyperbench.settings import Settings
from vlmhyperbench_scheduler.loop import Loop
from vlmhyperbench_sdk.protocols import MemoryEstimate

GIB = 1024**3
MODELS, DEVICE_GIB, DRAWS = 12, 24, 12
ANY, FEW = 4 * MODELS, 4
"""Jobs that a worker takes at a time: as many as fit its device, as the best schedule does, and the default."""
KNOWN = (
    ("measured before", "≤ 1.15"),
    ("never measured", "≤ 1.15 where they grow with the size"),
    ("never measured, in 2 shards each", "≤ 1.15"),
    ("never measured, in 4 shards each", "≤ 1.15"),
    ("measured before, 4 jobs at a time", ""),
)
"""What the scheduler knows of the durations, with the aim."""
JOBS, WORKERS, TARGETS, ROUNDS = 100_000, 500, 100, 9


def main() -> None:
    """Measure each figure and print it with its aim."""
    table = Table("figure", "measured", "aim", title="Placement on this machine")
    for name, duration in (
        ("size x 3 s, +- 50 %", lambda draw, size: max(1, round(size * 3 * draw.uniform(0.5, 1.5)))),
        ("10 to 60 s, whatever the size", lambda draw, _: draw.randint(10, 60)),
    ):
        ratios = [packing_ratios(seed, duration) for seed in range(DRAWS)]
        for (known, aim), each in zip(KNOWN, zip(*ratios, strict=True), strict=True):
            shown = f"median {statistics.median(each):.3f}, max {max(each):.3f}"
            table.add_row(f"makespan over the best, 12 models, 2 x 24 GB, durations of {name}, {known}", shown, aim)
    for name, shown in asyncio.run(tick_times()):
        table.add_row(name, shown, "≤ 250 ms")
    Console(width=140).print(table)
    print(machine_load())


def packing_ratios(seed: int, duration: Callable[[random.Random, int], int]) -> tuple[float, ...]:
    """Return the makespan of the scheduler over the best one, for models drawn from 2 to 20 GB, for each of `KNOWN`.

    The scheduler knows the sizes. It has measured the models before, or it has measured none, and learns the pace of a
    model from its first shard that ends. The best schedule is that of whole runs, so shards may be better; it starts as
    many as fit.
    """
    draw = random.Random(seed)
    items = [Item(size := draw.randint(2, 20), duration(draw, size)) for _ in range(MODELS)]
    needs = {str(no): MemoryNeed(device_bytes=item.size * GIB) for no, item in enumerate(items)}
    makespans = [
        plan_on_paper(_jobs_of(items, shards), _two_workers(slots), needs, paces).makespan_s or 0
        for shards, paces, slots in ((1, None, ANY), (1, {}, ANY), (2, {}, ANY), (4, {}, ANY), (1, None, FEW))
    ]
    best = best_makespan(items, DEVICE_GIB, at_most=round(min(makespans[:2])))
    return tuple(makespan / best for makespan in makespans)


def _jobs_of(items: Sequence[Item], shards: int) -> list[PaperJob]:
    experiment = uuid4()
    return [
        PaperJob(
            run=str(no),
            job=WaitingJob(
                id=uuid4(), kind=StepKind.GENERATE, target_digest=str(no), is_timed=False, experiment_id=experiment
            ),
            duration_s=item.duration / shards,
        )
        for no, item in enumerate(items)
        for _ in range(shards)
    ]


def _two_workers(slots: int) -> list[WorkerNow]:
    return [
        WorkerNow(
            id=UUID(int=no),
            kind="inference",
            queue=str(no),
            slots=slots,
            busy=0,
            devices=(DeviceNow(no=0, memory_bytes=DEVICE_GIB * GIB),),
            ground=Ground(machine=str(no)),
        )
        for no in (1, 2)
    ]


async def tick_times() -> list[tuple[str, str]]:
    """Measure ticks over `JOBS` READY jobs, behind which scores and reports wait, and `WORKERS` devices."""
    with tempfile.TemporaryDirectory(prefix="vlmhb-") as folder, _servers(Path(folder)) as (postgres, settings):
        async with open_runtime(settings) as runtime:
            database = runtime.database
            await _fill(database)
            bell = Bell(settings.redis_url.get_secret_value())
            loop = Loop(runtime, bell, Leadership(settings.database_url.get_secret_value()))
            gc.freeze()  # as the scheduler does it
            filling = [await _tick(loop, database, postgres)]
            while filling[-1].assigned:
                filling.append(await _tick(loop, database, postgres))
            steady = [await _tick(loop, database, postgres) for _ in range(ROUNDS)]
            freed = []
            for _ in range(ROUNDS):
                await _free(database, 10)
                freed.append(await _tick(loop, database, postgres))
            scraped = [await _scrape(database) for _ in range(ROUNDS)]
            bell.close()
    return [
        ("tick over 100,000 READY jobs, 500 devices full", _shown(steady)),
        ("the same, 10 devices have become free", _shown(freed)),
        ("the ticks in which 500 free devices are filled, one after the other", _shown(filling[:-1])),
        ("a read of /metrics meanwhile", f"median {statistics.median(scraped):.0f} ms, max {max(scraped):.0f} ms"),
    ]


@contextmanager
def _servers(folder: Path) -> Iterator[tuple[psutil.Process, Settings]]:
    """Start Postgres with the schema, and Valkey; yield the first's process and the settings of a scheduler of both."""
    database, broker = Postgres(folder / "pg"), Valkey(folder / "valkey")
    database.start()
    try:
        broker.start()
        try:
            migrations.upgrade(database.url)
            # No worker is there to be seen, nor to renew a lease.
            timers = {"stale_worker_s": 3600}
            given = {"home": folder, "database_url": database.url, "redis_url": broker.url, "timers": timers}
            pid = int((folder / "pg" / "data" / "postmaster.pid").read_text().split()[0])
            yield psutil.Process(pid), Settings.model_validate(given)
        finally:
            broker.stop()
    finally:
        database.stop()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """What a tick took."""

    time_s: float
    cpu_s: float
    """Processor time of scheduler and Postgres together, which other work on the machine hardly changes."""
    assigned: int


def _shown(ticks: list[Tick]) -> str:
    durations, spent = [tick.time_s * 1e3 for tick in ticks], [tick.cpu_s * 1e3 for tick in ticks]
    assigned = sum(tick.assigned for tick in ticks)
    return (
        f"median {statistics.median(durations):.0f} ms, max {max(durations):.0f} ms, "
        f"processor {statistics.median(spent):.0f} ms, max {max(spent):.0f} ms; "
        f"{assigned} jobs assigned in {len(ticks)} ticks"
    )


def _cpu_of(server: psutil.Process) -> float:
    """Return the processor time of Postgres and the processes of its connections."""
    return sum(sum(process.cpu_times()[:2]) for process in (server, *server.children()))


async def _tick(loop: Loop, database: Database, server: psutil.Process) -> Tick:
    """Do a whole tick of the scheduler: reap, advance, decide, assign, ring and publish."""
    server_cpu_s, cpu_s, start = _cpu_of(server), time.process_time(), time.perf_counter()
    await loop.tick(is_reaping=True)
    took_s = time.perf_counter() - start
    spent_s = time.process_time() - cpu_s + _cpu_of(server) - server_cpu_s
    async with database.transaction() as session:
        claimed = (await session.execute(text(_CLAIM))).all()
    return Tick(time_s=took_s, cpu_s=spent_s, assigned=len(claimed))


async def _scrape(database: Database) -> float:
    """Read the numbers of `/metrics` and write them as text; return the milliseconds."""
    start = time.perf_counter()
    async with database.transaction() as session:
        numbers = await platform_numbers.read(session, stale_s=3600, lease_s=30)
    write_text(numbers)
    return (time.perf_counter() - start) * 1e3


async def _free(database: Database, count: int) -> None:
    async with database.transaction() as session:
        await session.execute(text(_END), {"count": count})
        await session.execute(text("DELETE FROM reservation r USING job j WHERE j.id = r.job_id AND j.state = 'DONE'"))


async def _fill(database: Database) -> None:
    async with database.transaction() as session:
        for no in range(WORKERS):
            device = workers.NewDevice(no=0, kind="gpu", uuid=f"gpu-{no}", name="card", memory_bytes=24 * GIB)
            await workers.register(
                session,
                worker_id=uuid4(),
                name=f"worker-{no}",
                kind="inference",
                queue=f"inference.worker-{no}",
                host=f"host-{no // 8}",
                boot_id=uuid4(),
                pid=1,
                slots=4,
                version="0",
                devices=[device],
                ground=Ground(machine=f"host-{no // 8}", gpus=frozenset({device.uuid}), cores=frozenset({no % 8})),
            )
        await workers.register(
            session,
            worker_id=uuid4(),
            name="scores",
            kind="evaluation",
            queue="evaluation.scores",
            host="host-0",
            boot_id=uuid4(),
            pid=1,
            slots=4,
            version="0",
        )
        experiment = await experiments.add(
            session, project_id="default", created_by="me", name="packed", spec={}, spec_digest="0"
        )
        for no in range(TARGETS):
            spec = RunSpec(
                target=ModelTarget(model=f"model-{no}", version="1", backend="simulated", backend_class="simulated"),
                task="reading",
                task_version="1",
                dataset=DatasetSpec(name="data", version="1", type="synthetic"),
                prompt=PromptSpec(name="plain", version="1"),
                metrics=(),
            )
            run = await runs.add(session, project_id="default", created_by="me", name=f"run-{no}", spec=spec)
            values = {"run": run.id, "target": spec.target_digest, "count": JOBS // TARGETS, "timed": no % 2 == 0}
            values["experiment"] = experiment.id
            await session.execute(text(_ADD), values)
            for kind in ("SCORE", "SCORE", "REPORT"):
                await session.execute(text(_ADD_NEEDING), {"run": run.id, "kind": kind})
            estimate = MemoryEstimate(device_bytes=(2 + no % 18) * GIB, host_bytes=0, source="static")
            await memory.write_estimates(session, {spec.target_digest: estimate})
        await session.execute(text("UPDATE run SET state = 'RUNNING', is_dirty = false"))
    async with database.transaction() as session:
        await session.execute(text("ANALYZE"))


_ADD = """
INSERT INTO job (id, kind, scope, run_id, project_id, state, needs, needs_state, phase, range_start, range_end,
                 target_digest, params, experiment_id, priority, attempts, fails, done, failed, step, counts, is_timed,
                 devices)
SELECT gen_random_uuid(), 'GENERATE', 'run', :run, 'default', 'READY', '{}', 'DONE', 1, no * 10, no * 10 + 10,
       :target, '{}', :experiment, 0, 0, 0, 0, 0, 1, true, :timed, 1
FROM generate_series(0, :count - 1) AS numbers (no)
"""

_ADD_NEEDING = """
INSERT INTO job (id, kind, scope, run_id, project_id, state, needs, needs_state, params, priority, attempts, fails,
                 done, failed, step, counts, is_timed, devices)
SELECT gen_random_uuid(), :kind, 'run', :run, 'default', 'READY', array_agg(id), 'DONE', '{}', 0, 0, 0,
       0, 0, 2, false, false, 0
FROM job WHERE run_id = :run AND kind = 'GENERATE'
"""

_CLAIM = """
UPDATE job SET state = 'RUNNING', lease_until = now() + interval '1 hour' WHERE state = 'ASSIGNED' RETURNING id
"""

_END = """
UPDATE job SET state = 'DONE', worker_id = NULL
WHERE id IN (SELECT id FROM job WHERE state = 'RUNNING' LIMIT :count)
"""

if __name__ == "__main__":
    main()
