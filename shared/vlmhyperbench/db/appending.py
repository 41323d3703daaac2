"""Append a chunk: its rows, its manifest and the renewed lease in one transaction, under the claim's fence."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from uuid import UUID

from sqlalchemy import case, func, literal, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import ChunkRow, JobRow, PhaseRow, RunRow
from vlmhyperbench.db.views import NewChunk, NewFact
from vlmhyperbench.domain.failures import NOT_ASKED
from vlmhyperbench.domain.states import FactStatus, JobState, PhaseState
from vlmhyperbench.errors import Conflict, InvalidInput

_JOB = table_of(JobRow)
_RUN = table_of(RunRow)
_PHASE = table_of(PhaseRow)
_CHUNK = table_of(ChunkRow)
_FIELDS = tuple(field.name for field in fields(NewFact))

_REUSED = text("""
SELECT ordinal FROM reused_fact
WHERE run_id = :run AND phase = :phase AND ordinal = ANY(CAST(:ordinals AS bigint[]))
""")
"""An array: as many parameters as rows would take a third of an append's processor time to write."""
_INSERT = text(f"""
INSERT INTO fact SELECT * FROM json_populate_recordset(NULL::fact, CAST(:rows AS json))
ON CONFLICT DO NOTHING
RETURNING status <> '{FactStatus.OK.value}' AND error_code IS DISTINCT FROM '{NOT_ASKED}' AS has_failed
""")  # noqa: S608 - consists of constants


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """Result of an append, with the current counts of the job."""

    done: int
    """Number of rows of the job so far."""
    failed: int
    """Number of those rows that are not `ok`, although a request was to be made."""
    cancel_requested: bool
    in_flight: int | None = None
    """As that of `claims.Renewed`."""


async def append(
    session: AsyncSession,
    *,
    job_id: UUID,
    claim_id: UUID,
    chunk: NewChunk,
    rows: Sequence[NewFact],
    lease_s: float = 30.0,
) -> Appended | None:
    """Append a chunk's rows to the job's run; None if the claim is lost, in which case nothing is written.

    Rows that exist already, measured or reused, stay as they are, so appending a chunk twice has no effect. Only rows
    of the job's own phase count as done; those of a warm-up do not.

    Raises:
        InvalidInput: a row is outside the job's range, or has a number that JSON cannot represent.
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
    failures = await _insert_facts(session, job.run_id, claim_id, chunk, rows)
    if failures:
        await _insert_chunk(session, job.run_id, claim_id, chunk)
    counted = failures if is_own_phase else []
    return await _count(session, job_id, job.run_id, counted, lease_s=lease_s, is_progress=bool(counted) and is_shared)


async def _count(
    session: AsyncSession, job_id: UUID, run_id: UUID, failures: Sequence[bool], *, lease_s: float, is_progress: bool
) -> Appended:
    """Add rows, each of which has failed or not, to the counts of the job and renew its lease.

    Only rows that outlive the claim are progress: those of a phase that restarts as a whole are lost with it.
    """
    run = select(_RUN).where(_RUN.c.id == run_id)
    after = (
        await session.execute(
            update(_JOB)
            .where(_JOB.c.id == job_id)
            .values(
                done=_JOB.c.done + len(failures),
                failed=_JOB.c.failed + sum(failures),
                lease_until=func.now() + func.make_interval(0, 0, 0, 0, 0, 0, lease_s),
                **({"fails": literal(0)} if is_progress else {}),
            )
            .returning(
                _JOB.c.done,
                _JOB.c.failed,
                run.with_only_columns(_RUN.c.cancel_requested_at.is_not(None))
                .scalar_subquery()
                .label("cancel_requested"),
                case(
                    (
                        _JOB.c.counts,
                        run.with_only_columns(_RUN.c.retunes[-1]["in_flight"].as_integer()).scalar_subquery(),
                    )
                ).label("in_flight"),
            )
        )
    ).one()
    return Appended(
        done=after.done, failed=after.failed, cancel_requested=after.cancel_requested, in_flight=after.in_flight
    )


def _check_range(rows: Sequence[NewFact], start: int, end: int) -> None:
    outside = [row.ordinal for row in rows if not start <= row.ordinal < end]
    if outside:
        raise InvalidInput(f"Ordinal {outside[0]} is outside the job's range [{start}, {end}).")


async def _hold_phase(session: AsyncSession, run_id: UUID, claim_id: UUID, phase: int) -> bool:
    """Lock the phase, so that it is not closed before the rows are committed.

    Returns whether all claims of the run share the phase, so that its rows outlive this claim.
    """
    row = (
        await session.execute(
            select(_PHASE.c.state, _PHASE.c.claim_id)
            .where(_PHASE.c.run_id == run_id, _PHASE.c.no == phase)
            .with_for_update(read=True)
        )
    ).one_or_none()
    if row is None or row.state != PhaseState.OPEN.value or row.claim_id not in {None, claim_id}:
        state = "unknown" if row is None else f"{row.state}, opened by the claim {row.claim_id}"
        raise Conflict(f"The claim {claim_id} cannot append rows to phase {phase} of run {run_id}: it is {state}.")
    return row.claim_id is None


async def _insert_facts(
    session: AsyncSession, run_id: UUID, claim_id: UUID, chunk: NewChunk, rows: Sequence[NewFact]
) -> list[bool]:
    """Insert rows that are not there yet, and return of each whether it has failed."""
    values = {"run": run_id, "phase": chunk.phase, "ordinals": [row.ordinal for row in rows]}
    reused = set((await session.execute(_REUSED, values)).scalars())
    location = {"run_id": str(run_id), "phase": chunk.phase, "claim_id": str(claim_id), "chunk": chunk.no}
    documents = [location | {name: getattr(row, name) for name in _FIELDS} for row in rows if row.ordinal not in reused]
    try:
        encoded = json.dumps(documents, allow_nan=False)
    except ValueError as error:
        raise InvalidInput("A row has a number that is not finite.", cure="Use None for an unknown number.") from error
    return list((await session.execute(_INSERT, {"rows": encoded})).scalars())


async def _insert_chunk(session: AsyncSession, run_id: UUID, claim_id: UUID, chunk: NewChunk) -> None:
    inserted = await session.execute(
        insert(_CHUNK)
        .values(run_id=run_id, claim_id=claim_id, **asdict(chunk))
        .on_conflict_do_nothing()
        .returning(_CHUNK.c.no)
    )
    if inserted.one_or_none() is None:
        raise Conflict(f"The claim {claim_id} already has a chunk {chunk.phase}-{chunk.no} with other rows.")
