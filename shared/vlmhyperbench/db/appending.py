"""Commit a chunk: its rows, its manifest and the lease in one transaction, all of it behind the claim's fence."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal
from uuid import UUID

from sqlalchemy import func, literal, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import ChunkRow, JobRow, KeptFactRow, PhaseRow, RunRow
from vlmhyperbench.domain.states import FactStatus, JobState, PhaseState
from vlmhyperbench.errors import Conflict, InvalidInput

_JOB = table_of(JobRow)
_RUN = table_of(RunRow)
_PHASE = table_of(PhaseRow)
_CHUNK = table_of(ChunkRow)
_KEPT = table_of(KeptFactRow)

_INSERT = text("""
INSERT INTO fact SELECT * FROM json_populate_recordset(NULL::fact, CAST(:rows AS json))
ON CONFLICT DO NOTHING RETURNING status
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewChunk:
    """A chunk that lies in storage already, under its claim's key."""

    phase: int
    no: int
    """Its number among this claim's chunks of the phase."""
    storage_key: str
    sha256: str
    size_bytes: int
    rows: int
    """How many the file has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFact:
    """The narrow row of one request; run, phase, claim and chunk follow from where it is appended."""

    ordinal: int
    row: int
    """Place in the chunk's file."""
    sample: int
    status: FactStatus
    request_sha256: str
    repeat: int = 0
    turn: int = 0
    member: int = 0
    stream: int = 0
    origin: Literal["live", "cached", "imported"] = "live"
    failure: Literal["model", "infrastructure"] | None = None
    error_code: str | None = None
    error: str | None = None
    http_status: int | None = None
    finish_reason: str | None = None
    tries: int = 1
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    token_source: str | None = None
    scheduled_ns: int | None = None
    sent_ns: int | None = None
    queue_ns: int | None = None
    ttft_user_ns: int | None = None
    ttft_service_ns: int | None = None
    tpot_ns: float | None = None
    latency_ns: int | None = None
    stream_end_ns: int | None = None
    text_sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What the append did, and what the worker learns by it."""

    inserted: int
    """Rows that were not there before."""
    done: int
    """Rows of the job so far."""
    failed: int
    """Those of them that are not `ok`."""
    cancel_requested: bool


_FIELDS = tuple(field.name for field in fields(NewFact))


async def append(
    session: AsyncSession,
    *,
    job_id: UUID,
    claim_id: UUID,
    chunk: NewChunk,
    rows: Sequence[NewFact],
    lease_s: float = 30.0,
) -> Appended | None:
    """Append a chunk's rows to the job's run; None where the claim is lost: nothing is written then.

    Rows that exist already (own or kept) stay as they are, so appending a chunk twice changes nothing. Only rows of
    the job's own phase count as done: those of a warm-up do not.

    Raises:
        InvalidInput: a row is outside of the job's range, or JSON cannot hold one of its numbers.
        Conflict: the phase is not open for this claim, or the chunk's number was used for another file.
    """
    job = (
        await session.execute(
            select(_JOB.c.run_id, _JOB.c.phase, _JOB.c.range_start, _JOB.c.range_end)
            .where(
                _JOB.c.id == job_id,
                _JOB.c.claim_id == claim_id,
                _JOB.c.state == JobState.RUNNING.value,
                _JOB.c.run_id.is_not(None),
            )
            .with_for_update()
        )
    ).one_or_none()
    if job is None:
        return None
    is_own_phase = chunk.phase == job.phase
    if is_own_phase and job.range_start is not None and job.range_end is not None:
        _check_range(rows, job.range_start, job.range_end)
    is_shared = await _hold_phase(session, job.run_id, claim_id, chunk.phase)
    statuses = await _insert_facts(session, job.run_id, claim_id, chunk, rows)
    if statuses:
        await _insert_chunk(session, job.run_id, claim_id, chunk)
    counted = statuses if is_own_phase else []
    failed = sum(status != FactStatus.OK.value for status in counted)
    # Rows of a phase that restarts whole, or of another one, are lost with the claim: the job is no nearer to its end.
    progressed = {"fails": literal(0)} if counted and is_shared else {}
    after = (
        await session.execute(
            update(_JOB)
            .where(_JOB.c.id == job_id)
            .values(
                done=_JOB.c.done + len(counted),
                failed=_JOB.c.failed + failed,
                lease_until=func.now() + func.make_interval(0, 0, 0, 0, 0, 0, lease_s),
                **progressed,
            )
            .returning(
                _JOB.c.done,
                _JOB.c.failed,
                select(_RUN.c.cancel_requested_at.is_not(None))
                .where(_RUN.c.id == job.run_id)
                .scalar_subquery()
                .label("cancel_requested"),
            )
        )
    ).one()
    return Appended(
        inserted=len(statuses), done=after.done, failed=after.failed, cancel_requested=after.cancel_requested
    )


def _check_range(rows: Sequence[NewFact], start: int, end: int) -> None:
    outside = [row.ordinal for row in rows if not start <= row.ordinal < end]
    if outside:
        raise InvalidInput(f"Ordinal {outside[0]} is outside of the job's range [{start}, {end}).")


async def _hold_phase(session: AsyncSession, run_id: UUID, claim_id: UUID, phase: int) -> bool:
    """Keep the phase from being closed until the rows are committed: what counts is what was there when it closed.

    True: all claims of the run write it, so that its rows outlive the claim.
    """
    found = (
        await session.execute(
            select(_PHASE.c.state, _PHASE.c.claim_id)
            .where(_PHASE.c.run_id == run_id, _PHASE.c.no == phase)
            .with_for_update(read=True)
        )
    ).one_or_none()
    if found is None or found.state != PhaseState.OPEN.value or found.claim_id not in {None, claim_id}:
        state = "unknown" if found is None else found.state
        raise Conflict(f"Phase {phase} of run {run_id} takes no rows of this claim: it is {state}.")
    return found.claim_id is None


async def _insert_facts(
    session: AsyncSession, run_id: UUID, claim_id: UUID, chunk: NewChunk, rows: Sequence[NewFact]
) -> list[str]:
    kept = await session.execute(
        select(_KEPT.c.ordinal).where(
            _KEPT.c.run_id == run_id,
            _KEPT.c.phase == chunk.phase,
            _KEPT.c.ordinal.in_([row.ordinal for row in rows]),
        )
    )
    kept_ordinals = set(kept.scalars())
    place = {"run_id": str(run_id), "phase": chunk.phase, "claim_id": str(claim_id), "chunk": chunk.no}
    documents = [
        place | {name: getattr(row, name) for name in _FIELDS} for row in rows if row.ordinal not in kept_ordinals
    ]
    try:
        encoded = json.dumps(documents, allow_nan=False)
    except ValueError as error:
        raise InvalidInput("A row holds a number that is not finite.", cure="What is unknown is None.") from error
    return list((await session.execute(_INSERT, {"rows": encoded})).scalars())


async def _insert_chunk(session: AsyncSession, run_id: UUID, claim_id: UUID, chunk: NewChunk) -> None:
    inserted = await session.execute(
        insert(_CHUNK)
        .values(
            run_id=run_id,
            claim_id=claim_id,
            phase=chunk.phase,
            no=chunk.no,
            storage_key=chunk.storage_key,
            sha256=chunk.sha256,
            size_bytes=chunk.size_bytes,
            rows=chunk.rows,
        )
        .on_conflict_do_nothing()
        .returning(_CHUNK.c.no)
    )
    if inserted.one_or_none() is None:
        raise Conflict(f"Chunk {chunk.phase}-{chunk.no} of claim {claim_id} exists already, and these rows are new.")
