from __future__ import annotations

import asyncio
from uuid import UUID, uuid4

import pytest

from tests.support.builders import PROJECT, add_run
from tests.support.processes import PATIENCE_S
from vlmhyperbench.db import events, experiments
from vlmhyperbench.db.engine import Database
from vlmhyperbench.errors import NotFound
from vlmhyperbench.events import Event, EventType

pytestmark = pytest.mark.anyio


async def _run(database: Database) -> UUID:
    async with database.transaction() as session:
        return (await add_run(session)).id


async def test_numbers_are_gapless_and_in_the_order_of_commits_under_eight_writers(database: Database) -> None:
    run_id = await _run(database)
    acknowledged: list[int] = []

    async def write(writer: int) -> None:
        for number in range(25):
            try:
                async with database.transaction() as session:
                    seq = await events.append(
                        session, stream_id=run_id, type=EventType.JOB_DONE, data={"writer": writer, "number": number}
                    )
                    if number % 5 == 4:
                        raise KeyError
            except KeyError:
                continue
            acknowledged.append(seq)

    async def follow() -> list[int]:
        seen: list[int] = []
        while len(seen) < 1 + 8 * 20:
            async with database.transaction() as session:
                result = await events.after(session, run_id, seen[-1] if seen else 0)
            seen += [event.seq for event in result]
        return seen

    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        reader = group.create_task(follow())
        for writer in range(8):
            group.create_task(write(writer))
    expected = list(range(1, 1 + 1 + 8 * 20))
    assert reader.result() == expected
    assert sorted(acknowledged) == expected[1:]


async def test_an_event_knows_its_run_experiment_and_project(database: Database) -> None:
    job_id = uuid4()
    async with database.transaction() as session:
        experiment = await experiments.add(
            session, project_id=PROJECT, created_by="tester", name="e", spec={}, spec_digest="d"
        )
        run = await add_run(session, experiment_id=experiment.id)
        assert await events.append(session, stream_id=run.id, type="job.done", job_id=job_id, stage="report") == 2
        assert await events.append(session, stream_id=experiment.id, type="experiment.done", data={"a": [1]}) == 2
    async with database.transaction() as session:
        queued, of_run = await events.after(session, run.id, 0)
        (of_experiment,) = await events.after(session, experiment.id, 1)
    assert (queued.type, queued.data["name"]) == ("run.queued", "run")
    assert (of_run.run_id, of_run.experiment_id, of_run.project_id) == (run.id, experiment.id, PROJECT)
    assert (of_run.job_id, of_run.stage, of_run.data) == (job_id, "report", {})
    assert (of_experiment.run_id, of_experiment.experiment_id) == (None, experiment.id)
    assert of_experiment.data == {"a": [1]}
    envelope = Event.model_validate(of_run)
    assert (envelope.v, envelope.seq, envelope.stream_id) == (1, 2, run.id)
    assert Event.model_validate(of_experiment).stream_id == experiment.id


async def test_a_reader_continues_after_its_cursor(database: Database) -> None:
    run_id = await _run(database)
    async with database.transaction() as session:
        for _ in range(4):
            await events.append(session, stream_id=run_id, type="job.done")
        assert [event.seq for event in await events.after(session, run_id, 2, limit=2)] == [3, 4]
        assert await events.after(session, run_id, 5) == []


async def test_a_stream_must_be_a_run_or_an_experiment(database: Database) -> None:
    async with database.transaction() as session:
        with pytest.raises(NotFound):
            await events.append(session, stream_id=uuid4(), type="job.done")
