"""A session as the API shows it: its question, what each step answered so far, and the pipeline's answer."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from vlmhyperbench.db import evidence, jobs, phases, runs
from vlmhyperbench.db.engine import AsyncSession
from vlmhyperbench.db.evidence import ClaimOfJob
from vlmhyperbench.db.views import PhaseView, RunView
from vlmhyperbench.domain.asking import pipeline_of
from vlmhyperbench.domain.failures import NOT_SENT
from vlmhyperbench.domain.pipelines import AskedModel, Key, PipelineTarget, asked_model, asked_models
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.states import JobState, PhaseState
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.domain.units import NS_PER_S
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound
from vlmhyperbench.exchange.session_archive import MAX_SESSIONS
from vlmhyperbench.facts.read import read_facts
from vlmhyperbench.facts.replies import PAYLOAD, PHASE_KIND
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.summaries.manifest import fallbacks_of
from vlmhyperbench.wire.sessions import Session, SessionDetail, SessionLoad, SessionStage, SessionStep, StepState

Row = Mapping[str, Any]


async def read_session(
    runtime: Runtime, run_id: UUID, *, project_id: str, without: Collection[int] = ()
) -> SessionDetail:
    """Read a session of a project; the steps at the positions `without` are neither read nor returned.

    Raises:
        NotFound: there is no such session.
        NotReady, Damaged, Unavailable: as `read_facts`.
    """
    async with runtime.database.transaction() as session:
        run = await _session_run(session, run_id, project_id)
        own = await phases.of_run(session, run_id)
        measured = await evidence.of_run(session, run_id)
        running = [job for job in await jobs.of_run(session, run_id) if job.state is JobState.RUNNING]
    pipeline = pipeline_of(run.pinned_spec())
    wanted = {asked.key: (no, asked) for no, asked in enumerate(asked_models(pipeline)) if no not in without}
    keys = {
        phase.no: key
        for phase in own
        if phase.kind in {PHASE_KIND, "accuracy"} and ((key := _key(pipeline, phase)) is None or key in wanted)
    }
    asked_now = {asked_model(pipeline, job.params).key for job in running if job.kind is StepKind.MEMBER}
    failed = {keys[phase.no] for phase in own if phase.state is PhaseState.VOID and phase.no in keys}
    facts = await read_facts(runtime.database, runtime.storage, run_id, phases=list(keys), payload=(*PAYLOAD, "trace"))
    rows: dict[object, Row] = {keys[row["phase"]]: row for row in facts.iter_rows(named=True) if row["ordinal"] == 0}
    result, any_row = rows.get(None), next(iter(rows.values()), None)
    images = (any_row.get("images") or []) if any_row is not None else []
    return SessionDetail(
        **session_of(run).model_dump(),
        question=any_row.get("question") if any_row is not None else None,
        images=[image["sha256"] for image in images],
        steps=[
            _step(no, asked, rows.get(asked.key), _unanswered(asked.key, run, failed=failed, running=asked_now))
            for no, asked in wanted.values()
        ],
        loads=_loads(pipeline, measured),
        stages=_stages(result),
        answer=result["text"] if result is not None and result["status"] == "ok" else None,
        error=(result["error"] if result is not None and result["status"] != "ok" else None) or run.reason,
        latency_s=(run.finished_at - (run.started_at or run.created_at)).total_seconds() if run.finished_at else None,
        compute_s=_seconds(result),
    )


async def read_chain(runtime: Runtime, run_id: UUID, *, project_id: str) -> list[tuple[SessionDetail, RunSpec]]:
    """Read an ended session after those that it was made from, oldest first; one that was deleted ends the chain.

    Raises:
        NotFound: there is no such session.
        Conflict: it has not ended.
        InvalidInput: it was made from too many.
        NotReady, Damaged, Unavailable: as `read_facts`.
    """
    async with runtime.database.transaction() as session:
        last = await _session_run(session, run_id, project_id)
        if not last.state.is_terminal:
            raise Conflict(f"The session {last.id} has not ended.", cure="Wait until it has ended.", code="run_open")
        chain = [last]
        while len(chain) <= MAX_SESSIONS and (parent_id := chain[-1].parent_run_id) is not None:
            parent = await runs.get(session, parent_id, project_id=project_id)
            if parent is None:
                break
            chain.append(parent)
    if len(chain) > MAX_SESSIONS:
        message = f"The session {run_id} was made from more than {MAX_SESSIONS - 1} others."
        raise InvalidInput(message, cure="Export a session earlier in its chain.", code="export_too_large")
    return [
        (await read_session(runtime, each.id, project_id=project_id), each.pinned_spec()) for each in reversed(chain)
    ]


def session_of(run: RunView) -> Session:
    """Return a session as a row of a list."""
    return Session(
        id=run.id,
        pipeline=pipeline_of(run.pinned_spec()).pipeline,
        name=run.name,
        state=run.state,
        parent_run_id=run.parent_run_id,
        created_at=run.created_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
    )


async def _session_run(session: AsyncSession, run_id: UUID, project_id: str) -> RunView:
    run = await runs.get(session, run_id, project_id=project_id)
    if run is None or not run.pinned_spec().is_session:
        cure = "`vlmhyperbench pipeline history` and GET /pipelines/sessions list them."
        raise NotFound(f"There is no session {run_id}.", cure=cure)
    return run


def _key(pipeline: PipelineTarget, phase: PhaseView) -> Key | None:
    """Return whose answers a phase has; None: those of the pipeline."""
    return asked_model(pipeline, phase.params).key if phase.kind == PHASE_KIND else None


def _loads(pipeline: PipelineTarget, measured: Sequence[ClaimOfJob]) -> list[SessionLoad]:
    return [
        SessionLoad(stage=stage, role=role, model=model, fallbacks=[dict(step) for step in fallbacks])
        for claimed in measured
        if (fallbacks := fallbacks_of(claimed.claim.environment))
        for stage, role, model in (asked_model(pipeline, claimed.job.params).key,)
    ]


def _unanswered(key: Key, run: RunView, *, failed: Collection[Key | None], running: Collection[Key]) -> StepState:
    """Return the state of a step that has no answer."""
    if key in failed or run.state.is_terminal:
        return "failed"
    return "running" if key in running else "waiting"


def _step(no: int, asked: AskedModel, row: Row | None, unanswered: StepState) -> SessionStep:
    who = {"stage": asked.stage.id, "role": asked.role, "model": asked.model.name}
    if row is None:
        return SessionStep(no=no, **who, state=unanswered)
    if row["error_code"] in NOT_SENT:
        return SessionStep(no=no, **who, state="skipped", error=row["error"])
    is_ok = row["status"] == "ok"
    return SessionStep(
        no=no,
        **who,
        state="done" if is_ok else "failed",
        prompt=row["user_prompt"],
        text=row["text"],
        error=None if is_ok else row["error"] or row["error_code"],
        latency_s=_seconds(row),
        prompt_tokens=row["prompt_tokens"],
        completion_tokens=row["completion_tokens"],
        is_reused=row["is_reused"],
    )


def _stages(result: Row | None) -> list[SessionStage]:
    """Return what each stage came to, by the trace of the pipeline's answer, which leaves out the value of the last."""
    if result is None or not result["trace"]:
        return []
    stages = json.loads(result["trace"])["stages"]
    stages[-1].setdefault("value", result["text"])
    return [SessionStage.model_validate(stage) for stage in stages]


def _seconds(row: Row | None) -> float | None:
    return row["latency_ns"] / NS_PER_S if row is not None and row["latency_ns"] is not None else None
