"""Fill the database of a stack with many runs: one real run, copied with its rows in lists, its jobs and its facts."""

from __future__ import annotations

import json
from uuid import UUID

from sqlalchemy import create_engine, text

from benchmarks.run import all_ended
from vlmhyperbench.client import Client
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.registry.schemas import RunEntry

ROWS_EACH = 10_000
"""Fact rows of each copied run that has rows."""


def one_run(client: Client, *, samples: int) -> UUID:
    """Run simulated requests to their report, and return the run's id."""
    given = {
        "target": {"model": "simulated-instant"},
        "task": "synthetic-questions",
        "dataset": {"name": "synthetic-questions", "limit": samples},
        "scenario": {"name": "offline", "in_flight": 16},
    }
    run = client.runs.create(RunEntry.model_validate(given))
    return all_ended(client, [run.id])[0].id


def copy_run(home: Home, run_id: UUID, *, runs: int, rows: int) -> None:
    """Copy the run with its rows in lists and its jobs, and give the first copies rows of their own."""
    url = json.loads(home.settings_file.read_text())["database_url"]
    engine = create_engine(url)
    values = {"run": run_id, "runs": runs, "rows": min(ROWS_EACH, rows), "with_rows": rows // ROWS_EACH}
    with engine.begin() as connection:
        for statement in _COPY:
            connection.execute(text(statement), values)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))
    engine.dispose()


_COPIED = """
CREATE TEMPORARY TABLE copied AS
SELECT no, gen_random_uuid() AS id FROM generate_series(1, :runs) AS series (no)
"""
_RUNS = """
INSERT INTO run (id, experiment_id, parent_run_id, project_id, created_by, name, position, spec, spec_digest, state,
                 priority, is_paused, is_dirty, headline, event_seq, manifest_id, total, created_at, started_at,
                 finished_at)
SELECT c.id, NULL, NULL, r.project_id, r.created_by, 'copy ' || c.no, 0,
       jsonb_set(r.spec, '{decoding,max_tokens}', to_jsonb(c.no)), r.spec_digest, r.state, 0, false, false, r.headline,
       r.event_seq, r.manifest_id, r.total, r.created_at - c.no * interval '1 minute', r.started_at, r.finished_at
FROM copied c CROSS JOIN run r WHERE r.id = :run
"""
_LISTINGS = """
INSERT INTO run_listing (run_id, project_id, target, model, backend, task, dataset, scenario, columns, tags, note)
SELECT c.id, l.project_id, l.target, l.model, l.backend, l.task, l.dataset, l.scenario,
       l.columns || jsonb_build_object('metrics.exact_match', random()), l.tags, l.note
FROM copied c CROSS JOIN run_listing l WHERE l.run_id = :run
"""
_JOBS = """
INSERT INTO job SELECT (jsonb_populate_record(j, jsonb_build_object('id', gen_random_uuid(), 'run_id', c.id))).*
FROM copied c CROSS JOIN job j WHERE j.run_id = :run AND j.counts
"""
_FACTS = """
INSERT INTO fact SELECT (jsonb_populate_record(f, jsonb_build_object('run_id', c.id, 'ordinal', n))).*
FROM fact f CROSS JOIN copied c CROSS JOIN generate_series(0, CAST(:rows AS bigint) - 1) AS series (n)
WHERE f.run_id = :run AND (f.phase, f.ordinal) = (
  SELECT phase, ordinal FROM fact WHERE run_id = :run ORDER BY phase DESC, ordinal LIMIT 1
) AND c.no <= :with_rows
"""
_COPY = (_COPIED, _RUNS, _LISTINGS, _JOBS, _FACTS)
