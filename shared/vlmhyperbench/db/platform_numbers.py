"""What the database knows of the whole platform: the numbers of `GET /metrics` and of `vlmhyperbench status`.

Every query reads an index of open jobs, present workers or alerts, or a table that grows with runs only.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.leadership import LEADER_KEY
from vlmhyperbench.domain.states import RunState
from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench.monitoring.numbers import Number

MAX_DEVICES = 1000
"""Maximum number of devices that are listed one by one."""
QUEUES = ("inference", "evaluation", "report", "index")


async def read(session: AsyncSession, *, stale_s: float, lease_s: float) -> list[Number]:
    """Read all numbers; kinds and states that a dashboard expects are there with 0."""
    numbers: list[Number] = []
    for part in (
        _database(session),
        _runs(session),
        _jobs(session),
        _queues(session),
        _workers(session, stale_s),
        _devices(session),
        _leases(session, lease_s),
        _alerts(session),
    ):
        numbers += await part
    return numbers


def queue_of(kind: StepKind) -> str:
    """Return the queue under which jobs of a kind are counted."""
    step = STEPS[kind]
    if step.expands:
        return "index"
    return "report" if step.worker == "reporting" else step.worker


async def _database(session: AsyncSession) -> list[Number]:
    row = (await session.execute(text(_DATABASE), {"high": LEADER_KEY >> 32, "low": LEADER_KEY & 0xFFFFFFFF})).one()
    return [
        Number(name="database_size_bytes", value=row.size),
        Number(name="database_connections", value=row.connections),
        Number(name="scheduler_up", value=int(row.leads)),
    ]


async def _runs(session: AsyncSession) -> list[Number]:
    counted = dict.fromkeys((state.value for state in RunState), 0)
    counted |= {row.state: row.number for row in await session.execute(text(_RUNS))}
    return [Number(name="runs", value=number, labels={"state": state}) for state, number in counted.items()]


async def _jobs(session: AsyncSession) -> list[Number]:
    counted = dict.fromkeys(((kind.value, state) for kind in StepKind for state in ("READY", "ASSIGNED", "RUNNING")), 0)
    counted |= {(row.kind, row.state): row.number for row in await session.execute(text(_JOBS))}
    return [
        Number(name="jobs", value=number, labels={"kind": kind, "state": state})
        for (kind, state), number in counted.items()
    ]


async def _queues(session: AsyncSession) -> list[Number]:
    depth, held, oldest = dict.fromkeys(QUEUES, 0), dict.fromkeys(QUEUES, 0), dict.fromkeys(QUEUES, 0.0)
    early = [kind.value for kind, step in STEPS.items() if step.writes_facts or step.expands]
    for row in await session.execute(text(_WAITING), {"early": early}):
        queue = queue_of(StepKind(row.kind))
        depth[queue] += row.number
        oldest[queue] = max(oldest[queue], float(row.oldest_s))
    for row in await session.execute(text(_HELD)):
        held[queue_of(StepKind(row.kind))] += row.number
    return [
        *(Number(name="queue_depth", value=depth[queue], labels={"kind": queue}) for queue in QUEUES),
        *(Number(name="queue_jobs", value=depth[queue] + held[queue], labels={"kind": queue}) for queue in QUEUES),
        *(Number(name="queue_oldest_seconds", value=oldest[queue], labels={"kind": queue}) for queue in QUEUES),
    ]


async def _workers(session: AsyncSession, stale_s: float) -> list[Number]:
    rows = (await session.execute(text(_WORKERS), {"stale": stale_s})).all()
    kinds = dict.fromkeys(step.worker for step in STEPS.values())
    counted = dict.fromkeys(((kind, state) for kind in kinds for state in ("live", "draining", "stale")), 0)
    slots, busy = dict.fromkeys(kinds, 0), dict.fromkeys(kinds, 0)
    for row in rows:
        counted[row.kind, row.state] += row.number
        if row.state == "live":
            busy[row.kind] += row.busy
            slots[row.kind] += row.slots
    return [
        *(Number(name="workers", value=count, labels=_labels(key)) for key, count in counted.items()),
        *(Number(name="worker_slots", value=slots[kind], labels={"kind": kind}) for kind in kinds),
        *(Number(name="worker_slots_busy", value=busy[kind], labels={"kind": kind}) for kind in kinds),
    ]


async def _devices(session: AsyncSession) -> list[Number]:
    rows = (await session.execute(text(_DEVICES), {"limit": MAX_DEVICES})).all()
    counted = dict.fromkeys(((kind, state) for kind in ("gpu", "cpu") for state in ("ok", "broken")), 0)
    counted |= {(row.kind, row.state): row.number for row in await session.execute(text(_COUNTED))}
    numbers: list[Number] = []
    for row in rows:
        labels = {"host": row.host, "worker": row.worker, "device": str(row.no), "name": row.name}
        numbers += [
            Number(name="device_memory_bytes", value=row.memory_bytes, labels=labels),
            Number(name="device_memory_reserved_bytes", value=float(row.reserved), labels=labels),
            Number(name="device_jobs", value=row.jobs, labels=labels),
        ]
    return [*(Number(name="devices", value=count, labels=_labels(key)) for key, count in counted.items()), *numbers]


async def _leases(session: AsyncSession, lease_s: float) -> list[Number]:
    row = (await session.execute(text(_LEASES), {"lease": lease_s})).one()
    return [
        Number(name="lease_age_seconds", value=float(row.age_s)),
        Number(name="leases_expired", value=row.expired),
    ]


async def _alerts(session: AsyncSession) -> list[Number]:
    rows = (await session.execute(text(_ALERTS))).all()
    return [Number(name="alerts_recent", value=row.number, labels={"code": row.code}) for row in rows]


def _labels(key: Iterable[str]) -> dict[str, str]:
    kind, state = key
    return {"kind": kind, "state": state}


_DATABASE = """
SELECT pg_database_size(current_database()) AS size,
       (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()) AS connections,
       EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
               WHERE l.locktype = 'advisory' AND l.granted AND d.datname = current_database()
                 AND l.classid = :high AND l.objid = :low AND l.objsubid = 1) AS leads
"""

_RUNS = "SELECT state, count(*) AS number FROM run GROUP BY state"

# Two states have an index of their own: a query for all of the three would read every job that has ever run.
_JOBS = """
SELECT kind, state, count(*) AS number FROM job WHERE state = 'READY' GROUP BY kind, state
UNION ALL
SELECT kind, state, count(*) AS number FROM job WHERE state IN ('ASSIGNED', 'RUNNING') GROUP BY kind, state
"""

_HELD = "SELECT kind, count(*) AS number FROM job WHERE state IN ('ASSIGNED', 'RUNNING') GROUP BY kind"

# The same conditions as those of the scheduler's window, without its limits. The jobs without needs, by far the most,
# are counted for each owner before owners are looked at; a job with needs is left at the first one that is not done.
_WAITING = """
WITH open_run AS (
  SELECT id, is_dirty FROM run
  WHERE finished_at IS NULL AND cancel_requested_at IS NULL AND reason IS NULL AND NOT is_paused
), open_experiment AS (
  SELECT e.id, EXISTS (SELECT FROM run o WHERE o.experiment_id = e.id AND o.finished_at IS NULL AND NOT o.is_paused)
         AS has_active_run
  FROM experiment e WHERE e.finished_at IS NULL AND e.cancel_requested_at IS NULL
), due AS (
  SELECT j.kind, j.scope, j.run_id, j.experiment_id, count(*) AS number,
         min(GREATEST(j.created_at, j.not_before)) AS since
  FROM job j
  WHERE j.state = 'READY' AND (j.not_before IS NULL OR j.not_before <= now()) AND j.needs = '{}'
  GROUP BY j.kind, j.scope, j.run_id, j.experiment_id
  UNION ALL
  SELECT j.kind, j.scope, j.run_id, j.experiment_id, 1,
         (SELECT GREATEST(j.created_at, j.not_before, max(n.finished_at)) FROM job n WHERE n.id = ANY (j.needs))
  FROM job j
  WHERE j.state = 'READY' AND (j.not_before IS NULL OR j.not_before <= now()) AND j.needs <> '{}'
    AND NOT EXISTS (
      SELECT FROM job n WHERE n.id = ANY (j.needs) AND n.state <> 'DONE' AND CASE j.needs_state
        WHEN 'ENDED' THEN n.state NOT IN ('FAILED', 'CANCELLED')
        WHEN 'STARTED' THEN n.state <> 'RUNNING'
        ELSE true END)
)
SELECT due.kind, CAST(sum(due.number) AS bigint) AS number, extract(epoch FROM now() - min(due.since)) AS oldest_s
FROM due
LEFT JOIN open_run r ON due.scope = 'run' AND r.id = due.run_id
LEFT JOIN open_experiment e ON due.scope = 'experiment' AND e.id = due.experiment_id
WHERE (r.id IS NOT NULL AND (due.kind = ANY (CAST(:early AS text[])) OR NOT r.is_dirty))
   OR (e.id IS NOT NULL AND (due.kind <> 'INDEX' OR e.has_active_run))
GROUP BY due.kind
"""

_WORKERS = """
SELECT w.kind,
       CASE WHEN w.last_seen_at <= now() - make_interval(secs => :stale) THEN 'stale'
            WHEN w.state = 'DRAINING' OR EXISTS (
              SELECT FROM drain o WHERE o.resumed_at IS NULL
                AND ((o.scope = 'worker' AND o.name = w.queue) OR (o.scope = 'machine' AND o.name = w.host)))
              OR EXISTS (SELECT FROM device d WHERE d.worker_id = w.id) AND NOT EXISTS (
              SELECT FROM device d WHERE d.worker_id = w.id AND d.state = 'OK' AND NOT EXISTS (
                SELECT FROM drain o WHERE o.resumed_at IS NULL AND o.scope = 'device' AND o.name = d.uuid))
            THEN 'draining' ELSE 'live' END AS state,
       count(*) AS number, sum(w.slots) AS slots, sum(h.jobs) AS busy
FROM worker w
CROSS JOIN LATERAL (
  SELECT count(*) AS jobs FROM job j WHERE j.worker_id = w.id AND j.state IN ('ASSIGNED', 'RUNNING')) AS h
WHERE w.state IN ('LIVE', 'DRAINING') GROUP BY 1, 2
"""

_COUNTED = """
SELECT d.kind, lower(d.state) AS state, count(*) AS number FROM worker w JOIN device d ON d.worker_id = w.id
WHERE w.state IN ('LIVE', 'DRAINING') GROUP BY 1, 2
"""

_DEVICES = """
SELECT w.host, w.name AS worker, d.no, d.name, d.memory_bytes,
       COALESCE(sum(r.bytes), 0) AS reserved, count(r.job_id) AS jobs
FROM worker w
JOIN device d ON d.worker_id = w.id
LEFT JOIN reservation r ON r.worker_id = d.worker_id AND r.device = d.no
WHERE w.state IN ('LIVE', 'DRAINING') GROUP BY w.id, d.worker_id, d.no
ORDER BY w.host, w.name, d.no LIMIT :limit
"""

_LEASES = """
SELECT COALESCE(GREATEST(max(extract(epoch FROM now() - lease_until)) + :lease, 0), 0) AS age_s,
       count(*) FILTER (WHERE lease_until < now()) AS expired
FROM job WHERE state IN ('ASSIGNED', 'RUNNING') AND state = 'RUNNING'
"""

# Not a counter: it would fall when a run is deleted, and begin anew for a server that has just begun to look.
_ALERTS = """
SELECT COALESCE(data ->> 'code', 'unknown') AS code, count(*) AS number
FROM event WHERE type = 'alert.raised' AND ts > now() - interval '10 minutes' GROUP BY 1 ORDER BY 1 LIMIT 100
"""
