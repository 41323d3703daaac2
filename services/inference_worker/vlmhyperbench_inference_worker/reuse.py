"""Which rows of other runs a job reuses: those that are ok and answer the same request, by the same weights and engine.

The engine is loaded before, so that what it states now is compared with what was recorded then. Only a model of a
pipeline whose answers the parent has, all of one engine, is not loaded: combining them anew needs no model.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, cast
from uuid import UUID

from vlmhyperbench.data import manifest
from vlmhyperbench.db import reuse
from vlmhyperbench.db.reuse import Candidates, ReusableView
from vlmhyperbench.db.views import ReusedFactView
from vlmhyperbench.domain.pipelines import STAGE
from vlmhyperbench.domain.specs import ModelTarget, RunSpec
from vlmhyperbench.domain.states import FactStatus
from vlmhyperbench.facts.pages import read_candidates
from vlmhyperbench.worker.claims import REUSE, ClaimedJob
from vlmhyperbench_inference_worker.requests import PlannedRequest
from vlmhyperbench_inference_worker.work import Work
from vlmhyperbench_sdk.gateway import EngineIdentity
from vlmhyperbench_sdk.load import PhaseKind
from vlmhyperbench_sdk.types import JsonObject

_UNKNOWN = frozenset({"", "unknown"})


class Reason(StrEnum):
    """Why the row of a request is reused, or the request is asked."""

    SAME_REQUEST = "same_request"
    """The parent's row is ok."""
    CACHED = "same_request_of_another_run"
    """The row of another run of the project is ok."""
    NEVER_ASKED = "never_asked"
    NOT_IN_PARENT = "not_in_parent"
    OTHER_TARGET = "other_target"
    OTHER_REQUEST = "other_request"
    FAILED = "failed"
    OTHER_ENGINE = "other_engine"
    """The engine, its settings or its weights differ, or its version is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether the row of one request is reused."""

    ordinal: int
    reason: Reason
    source: ReusableView | None = None
    """The reused row; None: the request is asked."""
    error_code: str | None = None
    """Error of the parent's row, if that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Rows that may be reused, and the properties that decide on it."""

    parent: Mapping[tuple[str, int], ReusableView]
    """(key of the sample, repeat) → row of the parent."""
    is_same_target: bool
    """Whether the parent has the target of this run."""
    cached: Mapping[tuple[str, int], ReusableView]
    """(request, repeat) → row of another run, of the same target and engine."""
    same_engine: frozenset[UUID]
    """Claims whose engine is the same as the loaded one."""


async def replay_rows(job: ClaimedJob, work: Work) -> Work:
    """Reuse the answers of a model of a pipeline without loading it, if the parent's engine gave all that is missing.

    Raises:
        Fenced: the claim is lost; no row is reused.
    """
    if work.asks != "member" or work.parent_run_id is None or not work.has_parent:
        return work
    async with job.runtime.database.transaction() as session:
        recorded = await reuse.engines_of_members(session, work.parent_run_id, work.spec.target_digest)
    engine = same_engine(recorded)
    return work if engine is None else await reuse_rows(job, work, engine, is_all=True)


def same_engine(recorded: Sequence[JsonObject]) -> EngineIdentity | None:
    """Return the engine that several claims recorded; None if there is none, or they differ in what may change answers.

    All of an engine's packages count, since nothing tells here which of them another load would have.
    """
    engines = [EngineIdentity(**cast("dict[str, Any]", engine)) for engine in recorded]
    is_one = engines and all(_is_same(other, engine, is_apart=True) for engine in engines for other in recorded)
    return engines[0] if is_one else None


async def reuse_rows(job: ClaimedJob, work: Work, engine: EngineIdentity | None, *, is_all: bool = False) -> Work:
    """Reuse the rows that answer missing requests, and return the remaining work; the decisions become a file.

    With `is_all`, nothing is reused unless every request that can be sent is answered.

    Raises:
        Fenced: the claim is lost; no row is reused.
    """
    phase = job.job.phase
    if phase is None or not work.may_reuse or job.job.params.get(STAGE) in work.spec.asks_again:
        return work
    requests = [work.requests[ordinal] for ordinal in work.missing]
    candidates = await read_candidates(
        job.runtime.database,
        job.runtime.storage,
        parent_run_id=work.parent_run_id if work.has_parent else None,
        project_id=job.job.project_id,
        target_digest=work.spec.target_digest,
        request_sha256=[request.request_sha256 for request in requests] if work.takes_cached else [],
        kinds=sharing(work.facts_phase),
    )
    known = _known(candidates, await _parent_keys(job, candidates), work.spec, engine)
    decisions = [decide(known, request, key=work.sample_of(request.ordinal).key) for request in requests]
    asked = {decision.ordinal for decision in decisions if decision.source is None}
    if is_all and asked.intersection(work.readable):
        return work
    rows = [
        ReusedFactView(
            run_id=job.run_id,
            phase=phase,
            ordinal=decision.ordinal,
            source_run_id=decision.source.source_run_id,
            source_phase=decision.source.source_phase,
            source_ordinal=decision.source.source_ordinal,
            is_ok=decision.source.status is FactStatus.OK,
        )
        for decision in decisions
        if decision.source is not None
    ]
    lines = _lines(work, decisions)
    await job.add_file(REUSE, lines, reused=rows)
    reused = {row.ordinal for row in rows}
    return replace(work, missing=[ordinal for ordinal in work.missing if ordinal not in reused])


def sharing(kind: PhaseKind) -> list[PhaseKind]:
    """Return the kinds of phases whose answers may be reused: a model answers alone as in a pipeline."""
    return ["accuracy", "member"] if kind in {"accuracy", "member"} else [kind]


def decide(known: Known, request: PlannedRequest, *, key: str) -> Decision:
    """Decide whether a row answers a request; `key` is the key of its sample."""
    row = known.parent.get((key, request.repeat))
    reason = _reason(known, request, row)
    if reason is Reason.SAME_REQUEST:
        return Decision(ordinal=request.ordinal, reason=reason, source=row)
    cached = known.cached.get((request.request_sha256, request.repeat))
    if cached is not None:
        return Decision(ordinal=request.ordinal, reason=Reason.CACHED, source=cached)
    error_code = (row.error_code or row.status.value) if row is not None and reason is Reason.FAILED else None
    return Decision(ordinal=request.ordinal, reason=reason, error_code=error_code)


def _reason(known: Known, request: PlannedRequest, row: ReusableView | None) -> Reason:
    """Return what the parent's row means for a request."""
    if row is None:
        return Reason.NOT_IN_PARENT if known.parent else Reason.NEVER_ASKED
    if not known.is_same_target:
        return Reason.OTHER_TARGET
    if row.request_sha256 != request.request_sha256:
        return Reason.OTHER_REQUEST
    if row.status is not FactStatus.OK:
        return Reason.FAILED
    return Reason.SAME_REQUEST if row.claim_id in known.same_engine else Reason.OTHER_ENGINE


def _known(candidates: Candidates, keys: Sequence[str], spec: RunSpec, engine: EngineIdentity | None) -> Known:
    is_apart = isinstance(spec.target, ModelTarget) and spec.target.is_apart
    parent, rows, count = candidates.parent, candidates.reusable if keys else (), len(keys)
    same_engine = frozenset(
        claim_id
        for claim_id, recorded in candidates.engines.items()
        if engine and _is_same(recorded, engine, is_apart=is_apart)
    )
    return Known(
        parent={(keys[row.ordinal % count], row.ordinal // count): row for row in rows},
        is_same_target=parent is not None and RunSpec.model_validate(parent.spec).target_digest == spec.target_digest,
        cached={(row.request_sha256, row.repeat): row for row in candidates.cached if row.claim_id in same_engine},
        same_engine=same_engine,
    )


async def _parent_keys(job: ClaimedJob, candidates: Candidates) -> list[str]:
    """Read the keys of the parent's samples, in their order; empty without a parent or its manifest."""
    parent = candidates.parent
    if parent is None or parent.manifest_key is None or parent.manifest_id is None:
        return []
    path = await job.runtime.storage.open(parent.manifest_key, parent.manifest_id)
    frame = await asyncio.to_thread(manifest.read, path)
    return frame["key"].to_list()


def _is_same(recorded: JsonObject, engine: EngineIdentity, *, is_apart: bool) -> bool:
    """Return whether an engine is the recorded one; an engine of unknown version is the same as no other.

    In an environment of its own (`is_apart`) all its packages must be equal too: the same requirements may have been
    resolved to others on another machine, or on another day. In a container, its image must be equal; and the packages
    of an adapter that translates the requests in an environment of its own. The settings that it takes from its
    worker's environment are equal; one that was recorded without them had none that anybody knows.
    """
    stated: JsonObject = {
        "name": engine.name,
        "version": engine.version,
        "weights_sha256": dict(engine.weights_sha256),
        **({"packages": dict(engine.packages)} if is_apart else {}),
        **({"environment": dict(engine.environment)} if engine.environment else {}),
        **({"adapter_packages": dict(engine.adapter_packages)} if engine.adapter_packages else {}),
        **({"sources": dict(engine.sources)} if engine.sources else {}),
    }
    if recorded.get("variables", {}) != dict(engine.variables):
        return False
    return engine.version not in _UNKNOWN and all(recorded.get(name) == value for name, value in stated.items())


def _lines(work: Work, decisions: Sequence[Decision]) -> bytes:
    """Write one line per request: whether its row is reused or it is asked, and why."""
    lines = (
        {
            "key": work.sample_of(decision.ordinal).key,
            "repeat": work.place_of(decision.ordinal)[1],
            "decision": "reused" if decision.source else "asked",
            "reason": decision.reason,
            "error_code": decision.error_code,
            "measured_by": str(decision.source.source_run_id) if decision.source else None,
        }
        for decision in decisions
    )
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
