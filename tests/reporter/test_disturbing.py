"""Runs that were timed at the same time on one machine, read from a real database: their reports say so."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import insert, select, update

from tests.support.builders import add_run, add_shard, chunk_frame, new_fact, store_chunk
from vlmhyperbench.db.appending import append
from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import ClaimRow, JobRow, RunRow
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.summaries.records import ClaimEvidence, Disturber
from vlmhyperbench_reporter.reading import read_bundle
from vlmhyperbench_reporter.work import compose_run, render

pytestmark = pytest.mark.anyio

CLAIM, JOB, RUN = table_of(ClaimRow), table_of(JobRow), table_of(RunRow)
FORMATS = ("markdown", "html", "json")
ANSWERS = ["a", "b", "c"]


@pytest.fixture
def machine() -> str:
    return f"boot-{uuid4()}"


async def measured(
    runtime: Runtime,
    machine: str | None,
    *,
    name: str = "quiet",
    start: int | None = 100,
    end: int | None = 200,
    cores: str = "",
    gpus: tuple[str, ...] = (),
    **changes: object,
) -> tuple[UUID, str]:
    """Make a run whose inference sent requests there and then; return its id and that of the claim."""
    async with runtime.database.transaction() as session:
        run = await add_run(session, name=name)
        shard = await add_shard(session, run=run, end=len(ANSWERS))
        job = (await session.execute(select(JOB).where(JOB.c.id == shard.job_id))).one()
        values: dict[str, Any] = {
            "machine_id": machine,
            "cores": [int(core) for core in cores],
            "gpus": list(gpus),
            "sending_from_ns": start,
            "sending_until_ns": end,
            **changes,
        }
        await session.execute(
            insert(CLAIM).values(
                id=shard.claim_id,
                job_id=job.id,
                run_id=run.id,
                attempt_id=job.attempt_id,
                worker_id=job.worker_id,
                host="host",
                boot_id=uuid4(),
                machine={},
                packages={},
                **values,
            )
        )
        frame = chunk_frame(ANSWERS)
        chunk = store_chunk(runtime.storage, runtime.settings.home, frame, run_id=run.id, claim_id=shard.claim_id)
        facts = [new_fact(i, row=i) for i in range(len(ANSWERS))]
        assert await append(session, job_id=shard.job_id, claim_id=shard.claim_id, chunk=chunk, rows=facts)
    return run.id, str(shard.claim_id)


async def claim_of(runtime: Runtime, run_id: UUID) -> ClaimEvidence:
    (found,) = (await read_bundle(runtime, run_id)).claims
    return found


async def disturbers(runtime: Runtime, run_id: UUID) -> list[str] | None:
    found = (await claim_of(runtime, run_id)).disturbed_by
    return None if found is None else [disturber.claim_id for disturber in found]


async def test_runs_that_were_timed_at_once_are_invalid_and_each_names_the_other(
    runtime: Runtime, machine: str
) -> None:
    first, own = await measured(runtime, machine, name="first")
    second, other = await measured(runtime, machine, name="second", start=199, end=300)
    assert await disturbers(runtime, first) == [other]
    assert await disturbers(runtime, second) == [own]
    files = {
        file.name: file.content for file in render(compose_run(await read_bundle(runtime, first)), {}, formats=FORMATS)
    }
    report = json.loads(files["report.json"])
    assert report["headline"]["rows"][0]["validity"] == "invalid"
    named = f"the run second ({str(second)[:8]}, claim {other[:8]})"
    for name in ("report.json", "report.md", "report.html"):
        assert named in files[name].decode()


async def test_a_neighbour_that_only_the_client_recorded_counts(runtime: Runtime, machine: str) -> None:
    _, other = await measured(runtime, machine, cores="23", name="apart")
    met = [{"mark": "0123456789abcdef", "pid": 7}, {"mark": other, "pid": 8}]
    first, _ = await measured(runtime, machine, cores="01", client={"beside": met})
    stranger = Disturber(claim_id="0123456789abcdef", run_id=None, run_name=None, is_stranger=True)
    assert (await claim_of(runtime, first)).disturbed_by == (stranger,)
    files = {
        file.name: file.content for file in render(compose_run(await read_bundle(runtime, first)), {}, formats=FORMATS)
    }
    assert json.loads(files["report.json"])["headline"]["rows"][0]["validity"] == "invalid"
    assert b"another stack or of `load` (01234567)" in files["report.json"]


async def test_an_inference_of_another_project_counts_and_is_not_named(runtime: Runtime, machine: str) -> None:
    first, _ = await measured(runtime, machine)
    second, other = await measured(runtime, machine)
    async with runtime.database.transaction() as session:
        await session.execute(update(RUN).where(RUN.c.id == second).values(project_id="theirs"))
    found = (await claim_of(runtime, first)).disturbed_by
    assert found == (Disturber(claim_id=other, run_id=None, run_name=None),)


@pytest.mark.parametrize(
    "apart",
    [{"machine": "elsewhere"}, {"start": 200}, {"start": 0, "end": 100}, {"cores": "23"}],
    ids=["on another machine", "afterwards", "before", "on cores of its own"],
)
async def test_inferences_on_other_cores_or_at_other_times_disturb_no_run(
    runtime: Runtime, machine: str, apart: dict[str, Any]
) -> None:
    first, _ = await measured(runtime, machine, cores="01")
    await measured(runtime, **({"machine": machine, "cores": "01", "end": 300} | apart))
    assert await disturbers(runtime, first) == []


async def test_an_inference_on_the_same_gpu_disturbs_on_any_cores(runtime: Runtime, machine: str) -> None:
    first, _ = await measured(runtime, machine, cores="01", gpus=("x",))
    _, other = await measured(runtime, machine, cores="23", gpus=("x", "y"))
    assert await disturbers(runtime, first) == [other]


async def test_a_neighbour_that_is_still_sending_disturbs_every_later_run(runtime: Runtime, machine: str) -> None:
    first, _ = await measured(runtime, machine)
    _, other = await measured(runtime, machine, start=150, end=None)
    assert await disturbers(runtime, first) == [other]


@pytest.mark.parametrize(("ended_s", "is_disturbed"), [(10, False), (12, True)])
async def test_a_neighbour_that_was_killed_sent_until_its_claim_was_ended(
    runtime: Runtime, machine: str, ended_s: int, is_disturbed: bool
) -> None:
    def at(second: int) -> datetime:
        return datetime.fromisoformat(f"2026-01-01T00:00:{second:02}+00:00")

    # Second 11 of the wall's clock is instant 11e9 of the machine's.
    anchor = {"anchor_monotonic_ns": 0, "anchor_wall_ns": round(at(0).timestamp()) * 10**9}
    first, _ = await measured(runtime, machine, start=11 * 10**9, end=20 * 10**9, started_at=at(5), ended_at=at(30))
    _, other = await measured(runtime, machine, start=10**9, end=None, started_at=at(1), ended_at=at(ended_s), **anchor)
    assert await disturbers(runtime, first) == ([other] if is_disturbed else [])


async def test_a_claim_without_sent_requests_or_records_has_no_verdict_and_disturbs_no_run(
    runtime: Runtime, machine: str
) -> None:
    old, _ = await measured(runtime, None, start=None, end=None)
    idle, _ = await measured(runtime, machine, start=None, end=None)
    first, _ = await measured(runtime, machine)
    assert await disturbers(runtime, old) is None
    assert await disturbers(runtime, idle) is None
    assert await disturbers(runtime, first) == []
