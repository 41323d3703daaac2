"""What the models of a pipeline answered to one sample of its run."""

from __future__ import annotations

from vlmhyperbench.db import phases
from vlmhyperbench.db.views import RunView
from vlmhyperbench.domain.pipelines import PipelineTarget, asked_model, asked_models
from vlmhyperbench.domain.units import NS_PER_MS
from vlmhyperbench.errors import Damaged
from vlmhyperbench.facts.replies import PHASE_KIND
from vlmhyperbench.runtime import Runtime
from vlmhyperbench.wire.results import Result
from vlmhyperbench.wire.samples import MemberAnswer


async def read_members(runtime: Runtime, run: RunView, result: Result) -> list[MemberAnswer]:
    """Return the answers in the order of the pipeline's steps; none of other runs, or where their files are damaged."""
    target = run.pinned_spec().target
    if not isinstance(target, PipelineTarget):
        return []
    from vlmhyperbench.facts.read import read_facts  # imports polars on first use

    async with runtime.database.transaction() as session:
        own = [phase for phase in await phases.of_run(session, run.id) if phase.kind == PHASE_KIND]
    keys = {phase.no: asked_model(target, phase.params).key for phase in own}
    try:
        facts = await read_facts(
            runtime.database, runtime.storage, run.id, phases=list(keys), payload=("text",), ordinals=[result.ordinal]
        )
    except Damaged:
        return []
    rows = {keys[row["phase"]]: row for row in facts.iter_rows(named=True)}
    return [
        MemberAnswer(
            stage=asked.stage.id,
            role=asked.role,
            model=asked.model.name,
            text=row["text"] if row["status"] == "ok" else None,
            error=None if row["status"] == "ok" else row["error"] or row["error_code"],
            latency_ms=None if row["latency_ns"] is None else row["latency_ns"] / NS_PER_MS,
            prompt_tokens=row["prompt_tokens"],
            completion_tokens=row["completion_tokens"],
            is_reused=row["is_reused"],
        )
        for asked in asked_models(target)
        if (row := rows.get(asked.key)) is not None
    ]
