"""Read the workers with their slots and devices, as placement sees them, and what infers now."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db import memory
from vlmhyperbench.domain.ground import Ground
from vlmhyperbench.domain.needs import UNKNOWN, Need, devices_of
from vlmhyperbench.domain.placement import DeviceNow, Inferring, WorkerNow
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench.domain.steps import STEPS, StepKind

KNOWN_S = 600.0
"""Time since the last heartbeat of a worker within which its devices count as known: it may come back.

What is drained counts as known until a person resumes it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The workers that may get jobs now, and all that are known."""

    live: tuple[WorkerNow, ...]
    known: tuple[WorkerNow, ...]
    joined_s: float = math.inf
    """Time since the last of the known workers with devices has registered."""


async def workers(session: AsyncSession, *, stale_s: float) -> Capacity:
    """Read the live workers, drained ones included, and those that may come back."""
    values = {"stale": stale_s, "known": max(KNOWN_S, stale_s)}
    pinned = await _pinned(session)
    devices: dict[UUID, list[DeviceNow]] = defaultdict(list)
    for row in await session.execute(text(_DEVICES), values):
        device = DeviceNow(
            no=row.no,
            memory_bytes=row.memory_bytes,
            reserved_bytes=int(row.reserved_bytes),
            jobs=row.jobs,
            is_exclusive=row.is_exclusive,
            name=row.name,
            is_accelerator=row.kind != "cpu",
            uuid=row.uuid,
            drained=row.drained,
            is_broken=row.is_broken,
            is_declared=row.is_declared,
        )
        # As their worker chose it: a target is on the first devices, as many as it needs.
        own = [need for need in pinned[row.worker_id] if len(devices[row.worker_id]) < need.devices]
        devices[row.worker_id].append(replace(device, pinned=tuple(_taken(need, device) for need in own)))
    known: list[tuple[bool, WorkerNow]] = []
    joined_s = math.inf
    for row in await session.execute(text(_WORKERS), values):
        worker = WorkerNow(
            id=row.id,
            kind=row.kind,
            queue=row.queue,
            slots=row.slots,
            busy=row.busy,
            resident=frozenset(row.resident),
            devices=tuple(devices[row.id]),
            ground=_ground(row),
            name=row.name,
            host=row.host,
            drained=row.drained,
        )
        known.append((row.is_live, worker))
        if worker.devices:
            joined_s = min(joined_s, row.joined_s)
    return Capacity(
        live=tuple(worker for is_live, worker in known if is_live),
        known=tuple(worker for _, worker in known),
        joined_s=joined_s,
    )


async def _pinned(session: AsyncSession) -> Mapping[UUID, Sequence[Need]]:
    """Read what pinned targets need that are loaded and idle, by worker; what a job uses has its reservation."""
    rows = (await session.execute(text(_PINNED))).all()
    known = await memory.needs_of(session, {row.target_digest for row in rows}, margin=1.0) if rows else {}
    needs: dict[UUID, list[Need]] = defaultdict(list)
    for row in rows:
        try:
            target = _TARGET.validate_python(row.target)
        except ValidationError:  # of an older version: the scheduler goes on, and the model is asked for anew
            continue
        needs[row.worker_id].append(
            Need(
                kind=StepKind.GENERATE,
                target_digest=row.target_digest,
                devices=devices_of(target),
                memory=known.get(row.target_digest, UNKNOWN),
            )
        )
    return needs


def _taken(need: Need, device: DeviceNow) -> tuple[str, int]:
    """Return what a pinned target has of a device, as its worker has reserved it."""
    needed = need.bytes_on(device)
    return need.target_digest or "", device.memory_bytes if needed is None else needed


async def inferring(session: AsyncSession) -> tuple[Inferring, ...]:
    """Read the workers that hold a job which sends requests, whatever state the workers are in."""
    rows = await session.execute(text(_INFERRING), {"asking": _ASKING})
    return tuple(
        Inferring(worker_id=row.id, ground=_ground(row), is_timed=row.is_timed, servers=frozenset(row.servers))
        for row in rows
    )


def _ground(row: Row[Any]) -> Ground:
    return Ground(machine=row.machine, gpus=frozenset(row.gpus), cores=frozenset(row.cores or ()))


_ASKING = [kind.value for kind, step in STEPS.items() if step.asks is not None]

_TARGET: TypeAdapter[ModelTarget] = TypeAdapter(ModelTarget)

_PINNED = """
SELECT DISTINCT ON (h.worker_id, h.target_digest) h.worker_id, h.target_digest, h.target
FROM held_model h JOIN worker w ON w.id = h.worker_id AND h.target_digest = ANY(w.resident)
WHERE h.is_pinned AND h.state = 'loaded' AND NOT EXISTS (
  SELECT FROM job j WHERE j.worker_id = h.worker_id AND j.target_digest = h.target_digest
                      AND j.state IN ('ASSIGNED', 'RUNNING'))
ORDER BY h.worker_id, h.target_digest
"""

_DRAINED = "'by ' || drain.drained_by || ': ' || drain.reason AS drained"

# The workers that may come back: those seen a short time ago, and the last boot of each that is drained, or a device of
# it, such as that of a machine which is switched off for a repair.
_KNOWN = """WITH known AS (
  SELECT id FROM worker WHERE last_seen_at > now() - make_interval(secs => :known)
  UNION
  (SELECT DISTINCT ON (w.name, w.kind, w.host) w.id FROM worker w JOIN drain ON drain.resumed_at IS NULL AND (
     (drain.scope = 'worker' AND drain.name = w.queue) OR (drain.scope = 'machine' AND drain.name = w.host)
     OR (drain.scope = 'device' AND EXISTS (SELECT FROM device d WHERE d.worker_id = w.id AND d.uuid = drain.name)))
   ORDER BY w.name, w.kind, w.host, w.registered_at DESC)
)"""

_DEVICES = f"""
{_KNOWN}
SELECT d.worker_id, d.no, d.kind, d.uuid, d.name, d.memory_bytes, {_DRAINED},
       d.state = 'BROKEN' AS is_broken, w.is_declared,
       COALESCE(held.bytes, 0) AS reserved_bytes, COALESCE(held.jobs, 0) AS jobs,
       COALESCE(held.is_exclusive, false) AS is_exclusive
FROM device d
JOIN known ON known.id = d.worker_id JOIN worker w ON w.id = known.id
LEFT JOIN drain ON drain.scope = 'device' AND drain.name = d.uuid AND drain.resumed_at IS NULL
LEFT JOIN (
  SELECT worker_id, device, sum(bytes) AS bytes, count(*) AS jobs, bool_or(is_exclusive) AS is_exclusive
  FROM reservation GROUP BY worker_id, device
) AS held ON held.worker_id = d.worker_id AND held.device = d.no
ORDER BY d.worker_id, d.no
"""  # noqa: S608 - consists of this module's own text

# Declared devices say nothing of this machine, whose cores all of them share: each counts as a machine of its own.
_GROUND = """CASE WHEN w.is_declared THEN 'declared ' || w.id ELSE COALESCE(w.machine_id, w.host) END AS machine,
       w.cores,
       ARRAY(SELECT d.uuid FROM device d WHERE d.worker_id = w.id AND d.kind = 'gpu') AS gpus"""

_INFERRING = f"""
SELECT w.id, {_GROUND}, held.is_timed, held.servers FROM worker w JOIN (
  SELECT worker_id, bool_or(is_timed) AS is_timed,
         COALESCE(array_agg(DISTINCT server) FILTER (WHERE server IS NOT NULL), '{{}}') AS servers FROM job
  WHERE state IN ('ASSIGNED', 'RUNNING') AND kind = ANY(CAST(:asking AS text[])) GROUP BY worker_id
) AS held ON held.worker_id = w.id
"""  # noqa: S608 - as above

_WORKERS = f"""
{_KNOWN}
SELECT w.id, w.name, w.host, w.kind, w.queue, w.slots, w.resident, {_GROUND}, COALESCE(held.jobs, 0) AS busy,
       w.state = 'LIVE' AND w.last_seen_at > now() - make_interval(secs => :stale) AS is_live,
       CAST(extract(epoch FROM now() - w.registered_at) AS float) AS joined_s,
       (SELECT {_DRAINED} FROM drain WHERE drain.resumed_at IS NULL
          AND ((drain.scope = 'worker' AND drain.name = w.queue) OR (drain.scope = 'machine' AND drain.name = w.host))
        ORDER BY drain.drained_at LIMIT 1) AS drained
FROM known JOIN worker w ON w.id = known.id
LEFT JOIN (
  SELECT worker_id, count(*) AS jobs FROM job WHERE state IN ('ASSIGNED', 'RUNNING') GROUP BY worker_id
) AS held ON held.worker_id = w.id
ORDER BY w.queue, w.id
"""  # noqa: S608 - as above
