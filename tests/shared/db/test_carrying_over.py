"""Migrations of a filled database: its rows become those that the current version writes, and back."""

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
    names, positions = ", ".join(values), ", ".join(f":{name}" for name in values)
    connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({positions})"), values)


def add_run(connection: Connection) -> UUID:
    run_id = uuid4()
    counters = {"position": 0, "priority": 0, "event_seq": 0, "is_paused": False, "is_dirty": False}
    names = {"project_id": "p", "created_by": "u", "name": "old", "spec_digest": "d"}
    insert(connection, "run", id=run_id, state="RUNNING", spec="{}", **names, **counters)
    return run_id


def add_phase(connection: Connection, run_id: UUID, no: int, kind: str, params: JsonObject | None = None) -> None:
    insert(connection, "phase", run_id=run_id, no=no, kind=kind, params=json.dumps(params or {}), state="OPEN")


def add_job(
    connection: Connection,
    run_id: UUID,
    kind: str,
    *,
    phase: int | None = None,
    params: JsonObject | None = None,
    **columns: object,
) -> None:
    states = {"scope": "run", "project_id": "p", "state": "READY", "needs_state": "DONE"}
    counters = dict.fromkeys(("priority", "attempts", "fails", "done", "failed"), 0)
    keys = {"id": uuid4(), "run_id": run_id, "kind": kind, "phase": phase}
    insert(connection, "job", params=json.dumps(params or {}), **keys, **states, **counters, **columns)


@pytest.fixture
def old_url(empty_database_url: str) -> str:
    """Return a database at the revision before steps existed."""
    migrations.upgrade(empty_database_url, "0008")
    return empty_database_url


def read(url: str, query: str, run_id: UUID) -> Sequence[tuple[Any, ...]]:
    with connected(url) as connection:
        return [tuple(row) for row in connection.execute(text(query), {"run": run_id})]


def test_a_judged_run_gets_the_steps_that_are_planned_for_it_now(old_url: str) -> None:
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


def test_warm_up_and_baseline_phases_do_not_count(old_url: str) -> None:
    with connected(old_url) as connection:
        run_id = add_run(connection)
        for no, kind in enumerate(("warmup", "baseline", "multi_stream"), 1):
            add_phase(connection, run_id, no, kind)
    migrations.upgrade(old_url)
    phases = "SELECT step, counts FROM phase WHERE run_id = :run ORDER BY no"
    assert read(old_url, phases, run_id) == [(1, False), (1, False), (1, True)]


def test_the_judge_of_a_rescored_run_comes_after_the_reused_answers(old_url: str) -> None:
    with connected(old_url) as connection:
        run_id = add_run(connection)
        add_phase(connection, run_id, 1, "accuracy")
        add_phase(connection, run_id, 5, "judge", {"judge": "judged@v1"})
        add_job(connection, run_id, "GENERATE", phase=5, params={"judge": "judged@v1"})
        add_job(connection, run_id, "SCORE")
    migrations.upgrade(old_url)
    jobs = "SELECT kind, step, counts FROM job WHERE run_id = :run ORDER BY step"
    assert read(old_url, jobs, run_id) == [("JUDGE", 2, False), ("SCORE", 3, False)]


def test_reused_rows_outcomes_and_events_are_renamed_in_both_directions(empty_database_url: str) -> None:
    url = empty_database_url
    migrations.upgrade(url, "0010")
    outcome: JsonObject = {"kind": "complete", "data": {"metrics": 2, "kept": ["anls@paper"]}}
    indexed: JsonObject = {"manifest_id": None, "total": 3, "kept_of": str(uuid4())}
    with connected(url) as connection:
        source_id, run_id = add_run(connection), add_run(connection)
        phase = {"run_id": run_id, "phase": 1, "source_run_id": source_id, "source_phase": 4}
        insert(connection, "kept_phase", **phase)
        insert(connection, "kept_fact", **phase, ordinal=7, source_ordinal=9)
        add_job(connection, run_id, "SCORE", step=2, counts=False, outcome=json.dumps(outcome))
        add_job(connection, run_id, "REPORT", step=3, counts=False, outcome=json.dumps({"kind": "complete"}))
        event = {"stream_id": run_id, "run_id": run_id, "project_id": "p", "data": json.dumps(indexed)}
        insert(connection, "event", id=uuid4(), seq=1, type="run.indexed", **event)
    before = _reused(url, run_id, "kept")
    migrations.upgrade(url)
    after = _reused(url, run_id, "reused")
    assert after[:2] == before[:2] == ([(source_id, 4)], [(7, source_id, 4, 9)])
    data = {"metrics": 2, "reused": ["anls@paper"]}
    assert after[2] == [({"kind": "complete", "data": data},), ({"kind": "complete"},)]
    assert after[3] == [({"manifest_id": None, "total": 3, "reused_from": indexed["kept_of"]},)]
    migrations.downgrade(url, "0010")
    assert _reused(url, run_id, "kept") == before
    migrations.upgrade(url)
    migrations.check(url)


def _reused(url: str, run_id: UUID, name: str) -> tuple[Sequence[tuple[Any, ...]], ...]:
    """Read everything that names what a run reuses: phases, rows, outcomes and events."""
    statements = (
        f"SELECT source_run_id, source_phase FROM {name}_phase WHERE run_id = :run",
        f"SELECT ordinal, source_run_id, source_phase, source_ordinal FROM {name}_fact WHERE run_id = :run",
        "SELECT outcome FROM job WHERE run_id = :run ORDER BY step",
        "SELECT data FROM event WHERE run_id = :run",
    )
    return tuple(read(url, statement, run_id) for statement in statements)


def test_runs_that_ended_before_lists_had_rows_are_listed_with_their_headline(empty_database_url: str) -> None:
    migrations.upgrade(empty_database_url, "0019")
    spec = {
        "target": {"kind": "model", "model": "m", "backend": "llamacpp", "quantization": "Q4"},
        "task": "t",
        "dataset": {"name": "d"},
        "scenario": {"name": "s"},
    }
    scores = [
        {"metric": "anls", "value": 0.5, "ci_low": 0.4, "ci_high": None, "n": 3},
        {"metric": "cer", "value": None},
    ]
    headline = {"latency_p50_ms": 7, "cost_total": None, "validity": "valid", "name": "old", "scores": scores}
    with connected(empty_database_url) as connection:
        run_id = add_run(connection)
        other_id = add_run(connection)
        connection.execute(
            text("UPDATE run SET spec = :spec, headline = :headline WHERE id = :run"),
            {"spec": json.dumps(spec), "headline": json.dumps(headline), "run": run_id},
        )
    migrations.upgrade(empty_database_url)
    query = "SELECT target, model, backend, task, dataset, scenario, columns, tags FROM run_listing WHERE run_id = :run"
    columns = {"latency_p50_ms": 7, "validity": "valid", "metric": "anls"}
    columns |= {"metrics.anls": 0.5, "metrics.anls.low": 0.4, "metrics.anls.n_scored": 3}
    assert read(empty_database_url, query, run_id) == [("m (Q4)", "m", "llamacpp", "t", "d", "s", columns, [])]
    assert read(empty_database_url, query, other_id) == [("", "", "import", "", "", "", {}, [])]
