from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from tests.support.builders import PROJECT, add_run, run_spec
from vlmhyperbench.db import events, experiments, runs
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.queries import PageKey
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.states import ExperimentState, RunState

pytestmark = pytest.mark.anyio


async def _finish(database: Database, run_id: UUID) -> None:
    async with database.transaction() as session:
        await session.execute(
            text("UPDATE run SET state = 'SUCCEEDED', finished_at = now() WHERE id = :id"), {"id": run_id}
        )


async def _types(database: Database, run_id: UUID) -> list[str]:
    async with database.transaction() as session:
        return [event.type for event in await events.after(session, run_id, 0)]


async def test_a_run_is_added_with_its_spec_digest_and_event(database: Database) -> None:
    spec = run_spec(model_name="ü")
    async with database.transaction() as session:
        added = await add_run(session, name="first", spec=spec)
    async with database.transaction() as session:
        run = await runs.get(session, added.id)
    assert run is not None
    assert run.pinned_spec() == spec
    assert (run.spec_digest, run.state, run.is_dirty, run.event_seq) == (digest_of(spec), RunState.QUEUED, True, 1)
    assert await _types(database, run.id) == ["run.queued"]


async def test_a_transaction_that_fails_adds_neither_run_nor_event(database: Database) -> None:
    run_id = uuid4()

    async def fail_half_way() -> None:
        async with database.transaction() as session:
            await runs.add(session, project_id=PROJECT, created_by="t", name="n", spec=run_spec(), run_id=run_id)
            raise KeyError

    with pytest.raises(KeyError):
        await fail_half_way()
    async with database.transaction() as session:
        assert await runs.get(session, run_id) is None
        assert await events.after(session, run_id, 0) == []


async def test_a_run_of_another_project_is_not_visible(database: Database) -> None:
    async with database.transaction() as session:
        run = await add_run(session, project_id="theirs")
        assert await runs.get(session, run.id, project_id="mine") is None
        assert await runs.get(session, run.id, project_id="theirs") == run


async def test_pages_list_newest_first_without_gaps_or_duplicates(fresh_database: Database) -> None:
    ids = []
    for number in range(7):
        async with fresh_database.transaction() as session:
            ids.append((await add_run(session, name=str(number))).id)
    async with fresh_database.transaction() as session:
        same_instant = [(await add_run(session, name="same")).id for _ in range(4)]
        await add_run(session, project_id="theirs")
    listed: list[UUID] = []
    after: PageKey | None = None
    while True:
        async with fresh_database.transaction() as session:
            page = await runs.page(session, project_id=PROJECT, after=after, limit=3)
        if not page:
            break
        listed += [run.id for run in page]
        after = PageKey(page[-1].created_at, page[-1].id)
    assert listed == [*sorted(same_instant, reverse=True), *reversed(ids)]


async def test_runs_are_filtered(fresh_database: Database) -> None:
    async with fresh_database.transaction() as session:
        experiment = await experiments.add(
            session, project_id=PROJECT, created_by="t", name="e", spec={}, spec_digest="d"
        )
        second = await add_run(session, experiment_id=experiment.id, position=1)
        baseline = await add_run(session, experiment_id=experiment.id, position=0)
        await add_run(session)
    await _finish(fresh_database, second.id)
    async with fresh_database.transaction() as session:
        assert [run.id for run in await runs.of_experiment(session, experiment.id)] == [baseline.id, second.id]
        done = await runs.page(session, project_id=PROJECT, state=RunState.SUCCEEDED)
        assert [run.id for run in done] == [second.id]
        assert len(await runs.page(session, project_id=PROJECT, experiment_id=experiment.id)) == 2


async def test_a_cancellation_is_requested_once_and_never_of_a_run_that_has_ended(database: Database) -> None:
    async with database.transaction() as session:
        open_run, ended = await add_run(session), await add_run(session)
    await _finish(database, ended.id)
    async with database.transaction() as session:
        first = await runs.request_cancel(session, open_run.id)
        assert first is not None
        assert first.cancel_requested_at is not None
        assert await runs.request_cancel(session, open_run.id) == first
        untouched = await runs.request_cancel(session, ended.id)
        assert untouched is not None
        assert untouched.cancel_requested_at is None
        assert await runs.request_cancel(session, uuid4()) is None
    assert await _types(database, open_run.id) == ["run.queued", "run.cancel_requested"]
    assert await _types(database, ended.id) == ["run.queued"]


async def test_a_run_is_paused_and_resumed_with_events(database: Database) -> None:
    async with database.transaction() as session:
        run = await add_run(session)
        for is_paused in (True, True, False):
            changed = await runs.set_paused(session, run.id, is_paused=is_paused)
            assert changed is not None
            assert changed.is_paused is is_paused
        assert await runs.set_paused(session, uuid4(), is_paused=True) is None
    assert await _types(database, run.id) == ["run.queued", "run.paused", "run.resumed"]


async def test_cancelling_an_experiment_requests_the_cancellation_of_its_open_runs(fresh_database: Database) -> None:
    async with fresh_database.transaction() as session:
        experiment = await experiments.add(
            session, project_id=PROJECT, created_by="t", name="e", spec={"a": 1}, spec_digest="d"
        )
        ended = await add_run(session, experiment_id=experiment.id)
        members = [await add_run(session, experiment_id=experiment.id) for _ in range(3)]
    await _finish(fresh_database, ended.id)
    async with fresh_database.transaction() as session:
        cancelled = await experiments.request_cancel(session, experiment.id)
        assert cancelled is not None
        assert cancelled.cancel_requested_at is not None
        assert await experiments.request_cancel(session, uuid4()) is None
        result = {run.id: run.cancel_requested_at for run in await runs.of_experiment(session, experiment.id)}
    assert result[ended.id] is None
    assert all(result[run.id] is not None for run in members)


async def test_experiments_are_listed_newest_first(fresh_database: Database) -> None:
    ids = []
    for name in ("a", "b", "c"):
        async with fresh_database.transaction() as session:
            added = await experiments.add(
                session, project_id=PROJECT, created_by="t", name=name, spec={"name": name}, spec_digest="d"
            )
            ids.append(added.id)
    async with fresh_database.transaction() as session:
        first = await experiments.page(session, project_id=PROJECT, limit=2)
        rest = await experiments.page(
            session, project_id=PROJECT, after=PageKey(first[-1].created_at, first[-1].id), state=ExperimentState.OPEN
        )
        assert [result.id for result in [*first, *rest]] == list(reversed(ids))
        assert await experiments.page(session, project_id="theirs") == []
        assert await experiments.get(session, ids[0], project_id="theirs") is None
        result = await experiments.get(session, ids[0])
    assert result is not None
    assert result.spec == {"name": "a"}
