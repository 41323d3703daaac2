"""Start a run from the answers of another run: it reuses the phases of that run's answers and sends no requests."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db import events, phases, reuse
from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import RunRow
from vlmhyperbench.db.views import PhaseView, RunView
from vlmhyperbench.domain.states import PhaseState, RunState
from vlmhyperbench.errors import Conflict
from vlmhyperbench.events import EventType
from vlmhyperbench_sdk.load import PhaseKind
from vlmhyperbench_sdk.types import JsonObject

_RUN = table_of(RunRow)
_ANSWERED = frozenset({PhaseState.COMPLETE, PhaseState.STOPPED})
_OF_MEMBERS: PhaseKind = "member"


async def reuse_answers(session: AsyncSession, run: RunView, parent: RunView) -> list[int]:
    """Give a QUEUED run the samples and the answers of a run that has ended, and make it INDEXED.

    The phases of its members come with those that count, since a pipeline is compared with its members. Returns the
    numbers of these phases.

    Raises:
        Conflict: the parent has not ended, or has no answers.
    """
    answered = [phase for phase in await phases.of_run(session, parent.id) if _has_answers(phase)]
    if not parent.state.is_terminal:
        raise Conflict(f"The run {parent.id} has not ended.", cure="Wait until it has ended.", code="run_open")
    if not any(phase.counts for phase in answered) or parent.manifest_id is None:
        raise Conflict(f"The run {parent.id} has no answers to reuse.", cure="Run it again.", code="no_answers")
    for phase in answered:
        await phases.add(
            session,
            run_id=run.id,
            no=phase.no,
            step=phase.step,
            kind=cast("PhaseKind", phase.kind),  # only phases of these kinds are ever opened
            counts=phase.counts,
            params=phase.params,
            count=phase.count,
            state=phase.state,
        )
        await reuse.add_phase(session, run.id, phase.no, source_run_id=parent.id, source_phase=phase.no)
    numbers = {phase.no for phase in answered}
    rows = [row for row in await reuse.facts_of_run(session, parent.id) if row.phase in numbers]
    await reuse.add_facts(session, [replace(row, run_id=run.id) for row in rows])
    await session.execute(
        update(_RUN)
        .where(_RUN.c.id == run.id)
        .values(
            state=RunState.INDEXED.value,
            manifest_id=parent.manifest_id,
            examples_id=parent.examples_id,
            total=parent.total,
            stop_decision=parent.stop_decision,
        )
    )
    data: JsonObject = {"manifest_id": parent.manifest_id, "total": parent.total, "reused_from": str(parent.id)}
    await events.append(session, stream_id=run.id, type=EventType.RUN_INDEXED, data=data)
    return sorted(numbers)


def _has_answers(phase: PhaseView) -> bool:
    return phase.state in _ANSWERED and (phase.counts or phase.kind == _OF_MEMBERS)
