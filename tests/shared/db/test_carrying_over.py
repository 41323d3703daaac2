"""Rows that an older version wrote are what this one would have written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection, create_engine, text

from tests.shared.domain.builders_of_jobs import METRIC, judge_metric, run_spec
from vlmhyperbench.db import migrations
from vlmhyperbench.domain.planning import expand_run, plan_run
from vlmhyperbench.domain.steps import STEPS
from vlmhyperbench_sdk.types import JsonObject

JUDGED = run_spec(
    samples_per_shard=10, metrics=(METRIC, judge_metric(), judge_metric().model_copy(update={"name": "b"}))
)
SAMPLES = 12


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def insert(connection: Connection, table: str, **values: object) -> None:
    names, places = ", ".join(values), ", ".join(f":{name}" for name in values)
    connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({places})"), values)


def add_run(connection: Connection) -> UUID:
    run_id = uuid4()
    counters = {"position": 0, "priority": 0, "event_seq": 0, "is_paused": False, "is_dirty": False}
    names = {"project_id": "p", "created_by": "u", "name": "old", "spec_digest": "d"}
    insert(connection, "run", id=run_id, state="RUNNING", spec="{}", **names, **counters)
    return run_id


def add_phase(connection: Connection, run_id: UUID, no: int, kind: str, params: JsonObject | None = None) -> None:
    insert(connection, "phase", run_id=run_id, no=no, kind=kind, params=json.dumps(params or {}), state="OPEN")


def add_job(
    connection: Connection, run_id: UUID, kind: str, *, phase: int | None = None, params: JsonObject | None = None
) -> None:
    states = {"scope": "run", "project_id": "p", "state": "READY", "needs_state": "DONE"}
    counters = dict.fromkeys(("priority", "attempts", "fails", "done", "failed"), 0)
    place = {"id": uuid4(), "run_id": run_id, "kind": kind, "phase": phase}
    insert(connection, "job", params=json.dumps(params or {}), **place, **states, **counters)


@pytest.fixture
def old_url(empty_database_url: str) -> str:
    """Return a database as the version before wrote it."""
    migrations.upgrade(empty_database_url, "0008")
    return empty_database_url


def read(url: str, query: str, run_id: UUID) -> Sequence[tuple[Any, ...]]:
    with connected(url) as connection:
        return [tuple(row) for row in connection.execute(text(query), {"run": run_id})]


def test_a_judged_run_is_the_graph_that_would_be_planned_for_it_now(old_url: str) -> None:
    with connected(old_url) as connection:
        run_id = add_run(connection)
        add_phase(connection, run_id, 1, "accuracy", {"in_flight": 1, "scenario": "quality"})
        judges = [{"judge": f"{name}@v1", "in_flight": 4} for name in ("judged", "b")]
        add_job(connection, run_id, "INDEX")
        for _ in range(2):
            add_job(connection, run_id, "GENERATE", phase=1)
        for no, params in enumerate(judges, 2):
            add_phase(connection, run_id, no, "judge", params)
            for _ in range(3):
                add_job(connection, run_id, "GENERATE", phase=no, params=params)
        for kind in ("SCORE", "REPORT"):
            add_job(connection, run_id, kind)
    migrations.upgrade(old_url)
    plan = expand_run(JUDGED, samples=SAMPLES)
    jobs = "SELECT kind, step, counts, phase, params ->> 'metric' FROM job WHERE run_id = :run ORDER BY step, phase"
    assert read(old_url, jobs, run_id) == [
        (job.kind, job.step, STEPS[job.kind].counts, job.phase, job.params.get("metric"))
        for job in [*plan_run(JUDGED), *plan.jobs]
    ]
    phases = "SELECT no, kind, step, counts, params FROM phase WHERE run_id = :run ORDER BY no"
    assert [(no, kind, step, counts) for no, kind, step, counts, _ in read(old_url, phases, run_id)] == [
        (phase.no, phase.kind, phase.step, phase.counts) for phase in plan.phases
    ]
    assert [params for *_, params in read(old_url, phases, run_id)][1:] == [phase.params for phase in plan.phases[1:]]
    migrations.downgrade(old_url, "0008")
    asked = "SELECT count(*) FROM job WHERE run_id = :run AND kind = 'GENERATE' AND params ->> 'judge' = 'b@v1'"
    assert read(old_url, asked, run_id) == [(3,)]


def test_only_the_phase_that_a_job_is_about_counts(old_url: str) -> None:
    with connected(old_url) as connection:
        run_id = add_run(connection)
        for no, kind in enumerate(("warmup", "baseline", "multi_stream"), 1):
            add_phase(connection, run_id, no, kind)
    migrations.upgrade(old_url)
    phases = "SELECT step, counts FROM phase WHERE run_id = :run ORDER BY no"
    assert read(old_url, phases, run_id) == [(1, False), (1, False), (1, True)]


def test_a_run_of_kept_answers_has_its_judge_behind_them(old_url: str) -> None:
    with connected(old_url) as connection:
        run_id = add_run(connection)
        add_phase(connection, run_id, 1, "accuracy")
        add_phase(connection, run_id, 5, "judge", {"judge": "judged@v1"})
        add_job(connection, run_id, "GENERATE", phase=5, params={"judge": "judged@v1"})
        add_job(connection, run_id, "SCORE")
    migrations.upgrade(old_url)
    jobs = "SELECT kind, step, counts FROM job WHERE run_id = :run ORDER BY step"
    assert read(old_url, jobs, run_id) == [("JUDGE", 2, False), ("SCORE", 3, False)]
