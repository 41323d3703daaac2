"""Which answers a run keeps of others: those that are ok, to the same request, by the same weights and engine.

Nothing is kept on trust: the engine is loaded first, and what it says of itself is compared with what was recorded.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from vlmhyperbench.data import manifest
from vlmhyperbench.db import evidence, manifests, reuse, runs
from vlmhyperbench.db.reuse import ReusableView
from vlmhyperbench.db.views import ReusedFactView, SampleManifestView
from vlmhyperbench.domain.planning import target_digest
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.states import FactStatus
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.files import REUSE, keep_file
from vlmhyperbench_inference_worker.requests import PlannedRequest
from vlmhyperbench_inference_worker.work import Work
from vlmhyperbench_sdk.gateway import EngineIdentity
from vlmhyperbench_sdk.types import JsonObject

_UNKNOWN = frozenset({"", "unknown"})
KEPT = "same request, ok"
CACHED = "same request, ok, of another run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether one request is kept or asked again, and why."""

    ordinal: int
    source: ReusableView | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Answers that may be kept, and what speaks against them."""

    parent: Mapping[tuple[str, int], ReusableView]
    """(key of the sample, repeat) → row of the parent."""
    is_same_target: bool
    """Whether the parent's target is this one."""
    cached: Mapping[tuple[str, int], ReusableView]
    """(request, repeat) → row of another run, of the same target and engine."""
    same_engine: frozenset[UUID]
    """Claims that were answered by an engine like the one that is loaded."""


async def keep_equal(job: ClaimedJob, work: Work, engine: EngineIdentity | None) -> Work:
    """Keep what can be kept, and return the work that is left; every decision becomes a file of the run.

    Raises:
        Fenced: the claim is lost; nothing was kept.
    """
    phase = job.job.phase
    if phase is None or not work.may_reuse:
        return work
    requests = [work.requests[ordinal] for ordinal in work.missing]
    known = await _read(job, work, engine, requests)
    decisions = [decide(known, request, key=work.samples[request.sample].key) for request in requests]
    rows = [
        _row(job.run_id, phase, decision.ordinal, decision.source)
        for decision in decisions
        if decision.source is not None
    ]
    async with keep_file(job, REUSE, _lines(work, decisions)) as session:
        await reuse.add_to_shard(session, job.job.id, rows)
    taken = {row.ordinal for row in rows}
    return replace(work, missing=[ordinal for ordinal in work.missing if ordinal not in taken])


def decide(known: Known, request: PlannedRequest, *, key: str) -> Decision:
    """Say whether the answer to a request is kept; `key` is that of its sample."""
    found = known.parent.get((key, request.repeat))
    reason = _against(known, request, found)
    cached = known.cached.get((request.request_sha256, request.repeat))
    if reason is None:
        return Decision(ordinal=request.ordinal, source=found, reason=KEPT)
    if cached is not None:
        return Decision(ordinal=request.ordinal, source=cached, reason=CACHED)
    return Decision(ordinal=request.ordinal, source=None, reason=reason)


def _against(known: Known, request: PlannedRequest, found: ReusableView | None) -> str | None:
    if found is None:
        return "nobody has asked it" if not known.parent else "the parent has no such row"
    if not known.is_same_target:
        return "the target is another"
    if found.request_sha256 != request.request_sha256:
        return "the request is another"
    if found.status is not FactStatus.OK:
        return f"it failed: {found.error_code or found.status.value}"
    return None if found.claim_id in known.same_engine else "the engine or its weights are others"


async def _read(
    job: ClaimedJob, work: Work, engine: EngineIdentity | None, requests: Sequence[PlannedRequest]
) -> Known:
    target = work.target_digest
    rows: list[ReusableView] = []
    cached: list[ReusableView] = []
    is_same, found = False, None
    async with job.runtime.database.transaction() as session:
        if work.has_parent and work.parent_run_id is not None:
            run = await runs.get(session, work.parent_run_id)
            is_same = run is not None and target_digest(RunSpec.model_validate(run.spec)) == target
            found = await manifests.get(session, run.manifest_id or "") if run else None
            rows = await reuse.reusable(session, work.parent_run_id)
        if work.takes_cached:
            wanted = [request.request_sha256 for request in requests]
            cached = await reuse.cached(
                session,
                project_id=job.job.project_id,
                target_digest=target,
                request_sha256=wanted,
                kind=work.facts_phase,
            )
        claims = await evidence.of_claims(session, list({row.claim_id for row in (*rows, *cached)}))
    keys = await _keys(job, found) if found else []
    records = [record.claim for record in claims]
    alike = {claim.id for claim in records if claim.engine and engine and _is_same(claim.engine, engine)}
    return Known(
        parent={(keys[row.ordinal % len(keys)], row.ordinal // len(keys)): row for row in rows} if keys else {},
        is_same_target=is_same,
        cached={(row.request_sha256, row.repeat): row for row in cached if row.claim_id in alike},
        same_engine=frozenset(alike),
    )


async def _keys(job: ClaimedJob, found: SampleManifestView) -> list[str]:
    """Keys of a manifest's samples, in their order."""
    path = await job.runtime.storage.open(found.storage_key, found.id)
    frame = await asyncio.to_thread(manifest.read, path)
    return frame["key"].to_list()


def _is_same(recorded: JsonObject, engine: EngineIdentity) -> bool:
    """Say whether an engine is the recorded one; one whose version nobody knows is not."""
    known = {"name": engine.name, "version": engine.version, "weights_sha256": dict(engine.weights_sha256)}
    return engine.version not in _UNKNOWN and all(recorded.get(name) == value for name, value in known.items())


def _row(run_id: UUID, phase: int, ordinal: int, source: ReusableView) -> ReusedFactView:
    return ReusedFactView(
        run_id=run_id,
        phase=phase,
        ordinal=ordinal,
        source_run_id=source.source_run_id,
        source_phase=source.source_phase,
        source_ordinal=source.source_ordinal,
    )


def _lines(work: Work, decisions: Sequence[Decision]) -> bytes:
    """One line per request: kept, or asked again, and why."""
    lines = (
        {
            "key": work.sample_of(decision.ordinal).key,
            "repeat": decision.ordinal // len(work.samples),
            "decision": "kept" if decision.source else "asked",
            "reason": decision.reason,
            "measured_by": str(decision.source.source_run_id) if decision.source else None,
        }
        for decision in decisions
    )
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
