"""Read what the models of a pipeline have answered in a run, sample by sample."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import polars

from vlmhyperbench.db import phases
from vlmhyperbench.db.engine import Database
from vlmhyperbench.db.views import PhaseView
from vlmhyperbench.domain.failures import NOT_SENT
from vlmhyperbench.domain.pipelines import AskedModel, Key, PipelineTarget, asked_model, is_dispensable
from vlmhyperbench.domain.states import PhaseState
from vlmhyperbench.errors import Conflict
from vlmhyperbench.facts.read import read_facts
from vlmhyperbench.scoring.combining import Asked, Reply
from vlmhyperbench.storage import Storage

PHASE_KIND = "member"
PAYLOAD = ("text", "error", "user_prompt")
"""Columns of chunks that are read of each answer."""
_OF_REPLY = ("latency_ns", "prompt_tokens", "completion_tokens", "finish_reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replies:
    """The answers of some models of a pipeline."""

    samples: dict[int, Asked]
    """Ordinal of the run → what was asked and answered."""
    dropped: tuple[str, ...]
    """Optional models whose step failed, by stage and name: `read/small`."""


async def read_replies(
    database: Database,
    storage: Storage,
    run_id: UUID,
    pipeline: PipelineTarget,
    wanted: Sequence[AskedModel],
    *,
    ordinals: Sequence[int] | None = None,
) -> Replies:
    """Read the answers of models, of all ordinals or of some.

    Raises:
        Conflict: a model that is not optional has no answers, since its step failed.
        NotFound, NotReady, Damaged, Unavailable: as `read_facts`.
    """
    async with database.transaction() as session:
        own = [phase for phase in await phases.of_run(session, run_id) if phase.kind == PHASE_KIND]
    numbers, dropped = _phases(pipeline, own, wanted)
    facts = await read_facts(
        database,
        storage,
        run_id,
        phases=list(numbers),
        payload=PAYLOAD,
        ordinals=ordinals,
    )
    return Replies(samples=samples_of(facts, pipeline, numbers), dropped=dropped)


def _phases(
    pipeline: PipelineTarget, own: Sequence[PhaseView], wanted: Sequence[AskedModel]
) -> tuple[dict[int, Key], tuple[str, ...]]:
    keys = {asked.key for asked in wanted}
    numbers, dropped = dict[int, Key](), list[str]()
    for phase in own:
        asked = asked_model(pipeline, phase.params)
        if asked.key not in keys:
            continue
        if phase.state is not PhaseState.VOID:
            numbers[phase.no] = asked.key
        elif is_dispensable(pipeline, asked):
            dropped.append(asked.label)
        else:
            message = f"The model {asked.model.name} gave no answers in the stage {asked.stage.id}, which needs it."
            cure = "Correct its error and run again, which reuses the other answers; or let it be optional."
            raise Conflict(message, cure=cure, code="member_failed")
    return numbers, tuple(dropped)


def samples_of(facts: polars.DataFrame, pipeline: PipelineTarget, numbers: Mapping[int, Key]) -> dict[int, Asked]:
    """Return ordinal → what was asked and answered.

    Args:
        facts: Rows of `read_facts` with `PAYLOAD`.
        pipeline: The target of the run.
        numbers: Number of a phase → the model that was asked in it.
    """
    first = pipeline.stages[0].id
    columns = ("phase", "ordinal", "key", "metadata", "status", "failure", "error", "error_code", "text", "user_prompt")
    replies: dict[int, dict[Key, Reply]] = {}
    known: dict[int, tuple[str, str, str | None]] = {}
    for row in facts.select(*columns, *_OF_REPLY).iter_rows(named=True):
        key, ordinal = numbers[row["phase"]], row["ordinal"]
        replies.setdefault(ordinal, {})[key] = _reply(row)
        if ordinal not in known or (key[0] == first and not known[ordinal][0]):
            question = row["user_prompt"] if key[0] == first and key[1] == "member" else None
            known[ordinal] = (question or "", row["key"] or "", row["metadata"])
    return {
        ordinal: Asked(question=question, key=key, metadata=json.loads(metadata or "{}"), replies=replies[ordinal])
        for ordinal, (question, key, metadata) in known.items()
    }


def _reply(row: dict[str, Any]) -> Reply:
    is_ok = row["status"] == "ok"
    return Reply(
        text=(row["text"] or "") if is_ok else None,
        error=None if is_ok else _reason(row),
        failure="model" if row["failure"] == "model" else "infrastructure",
        was_asked=row["error_code"] not in NOT_SENT,
        **{name: row[name] for name in _OF_REPLY},
    )


def _reason(row: dict[str, Any]) -> str:
    """Return why a row has no answer; where nothing was sent, without the code, which is no word of a server."""
    code, _, told = (row["error"] or "").partition(": ")
    return told if code in NOT_SENT else row["error"] or row["error_code"] or "failed"
