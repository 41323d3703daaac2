"""Read all fact rows of a run, measured and reused, in batches of tuples; `facts.read` joins them with payloads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from uuid import UUID

from sqlalchemy import BigInteger, Column, text
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.queries import table_of
from vlmhyperbench.db.tables import FactRow

_FACT = table_of(FactRow)
_KINDS = {int: "i4", float: "f8"}


def kind_of(column: Column[Any]) -> str:
    """Return a column's type in the notation of `facts.schema`."""
    kind = "i8" if isinstance(column.type, BigInteger) else _KINDS.get(column.type.python_type, "str")
    return f"{kind}?" if column.nullable else kind


FACT_COLUMNS: dict[str, str] = {
    "phase": "i4",
    "ordinal": "i8",
    "phase_kind": "str",
    "is_reused": "bool",
    "source_phase": "i4",  # the phase in the run that measured the row; that run is `run_id`
    **{column.name: kind_of(column) for column in _FACT.columns if column.name not in {"phase", "ordinal", "error"}},
}
"""Columns of a row and their types, in the notation of `facts.schema`; all of a fact but its error message."""

_SAMPLES = ("sample", "repeat")
_BATCH_ROWS = 10_000

Phases: TypeAlias = Literal["counting", "all"] | Collection[int]
"""Which phases are read: the counting ones, all, or those with these numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A phase of a run whose rows are all those of a phase of the run that measured them."""

    phase: int
    phase_kind: str
    is_reused: bool
    source_run_id: UUID
    source_phase: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A single row of a run that another run measured."""

    phase: int
    ordinal: int
    phase_kind: str
    source_run_id: UUID
    source_phase: int
    source_ordinal: int


async def parts(session: AsyncSession, run_id: UUID, *, phases: Phases, sources: Sequence[UUID]) -> list[Part]:
    """Read the phases of a run whose rows one of these runs measured; arguments as those of `batches`."""
    rows = await session.execute(text(_PARTS), _values(run_id, phases) | {"sources": list(sources)})
    return [Part(**row._mapping) for row in rows]  # noqa: SLF001 - SQLAlchemy's public way to all columns


async def references(
    session: AsyncSession, run_id: UUID, *, phases: Phases, sources: Sequence[UUID]
) -> list[Reference]:
    """Read the single rows of a run that one of these runs measured; arguments as those of `batches`."""
    rows = await session.execute(text(_REFERENCES), _values(run_id, phases) | {"sources": list(sources)})
    return [Reference(**row._mapping) for row in rows]  # noqa: SLF001 - SQLAlchemy's public way to all columns


async def batches(
    session: AsyncSession,
    run_id: UUID,
    *,
    phases: Phases,
    samples: int,
    ordinals: Sequence[int] | None = None,
) -> AsyncIterator[list[tuple[Any, ...]]]:
    """Yield rows with the columns of `FACT_COLUMNS`, in no particular order.

    Args:
        session: the transaction to read in.
        run_id: the run.
        phases: which of its phases. `counting` are those whose rows are answers of the run: COMPLETE and STOPPED
            phases, and open accuracy phases.
        samples: number of rows of the run's sample manifest, from which sample and repeat of a reused row follow; 0
            without a manifest.
        ordinals: read only rows with these ordinals; None reads all.
    """
    values = _values(run_id, phases) | {"samples": samples}
    statement = _FACTS
    if ordinals is not None:
        statement, values["ordinals"] = _FACTS_OF_ORDINALS, list(ordinals)
    stream = await session.stream(text(statement), values, execution_options={"yield_per": _BATCH_ROWS})
    async for batch in stream.partitions(_BATCH_ROWS):
        yield [tuple(row) for row in batch]


def _values(run_id: UUID, phases: Phases) -> dict[str, object]:
    return {
        "run": run_id,
        "mode": phases if isinstance(phases, str) else "listed",
        "phases": [] if isinstance(phases, str) else list(phases),
    }


_COMMON = ", ".join(
    f"CAST(f.{name} AS text) AS {name}" if name in {"run_id", "claim_id"} else f"f.{name}"
    for name in FACT_COLUMNS
    if name not in {"phase", "ordinal", "phase_kind", "is_reused", "source_phase", *_SAMPLES}
)

_SELECTED = ", ".join(FACT_COLUMNS)

_CHOSEN = """
WITH part AS (
    SELECT no AS phase, kind AS phase_kind, counts, state, run_id AS source_run_id, no AS source_phase,
           false AS is_reused
    FROM phase WHERE run_id = :run
    UNION ALL
    SELECT k.phase, coalesce(own.kind, source.kind), coalesce(own.counts, source.counts),
           coalesce(own.state, source.state), k.source_run_id, k.source_phase, true
    FROM reused_phase k
    JOIN phase source ON source.run_id = k.source_run_id AND source.no = k.source_phase
    LEFT JOIN phase own ON own.run_id = k.run_id AND own.no = k.phase
    WHERE k.run_id = :run
), chosen AS (
    SELECT * FROM part
    WHERE :mode = 'all' OR (:mode = 'listed' AND phase = ANY(CAST(:phases AS integer[]))) OR (
        :mode = 'counting' AND counts
        AND (state IN ('COMPLETE', 'STOPPED') OR (state = 'OPEN' AND phase_kind = 'accuracy'))
    )
)
"""

_PARTS = f"""{_CHOSEN}
SELECT phase, phase_kind, is_reused, source_run_id, source_phase FROM chosen
WHERE source_run_id = ANY(CAST(:sources AS uuid[]))
"""  # noqa: S608 - consists of this module's own text

_REFERENCES = f"""{_CHOSEN}
SELECT c.phase, k.ordinal, c.phase_kind, k.source_run_id, k.source_phase, k.source_ordinal
FROM chosen c JOIN reused_fact k ON k.run_id = :run AND k.phase = c.phase AND NOT c.is_reused
WHERE k.source_run_id = ANY(CAST(:sources AS uuid[]))
"""  # noqa: S608 - consists of this module's own text

_NUMBERED = "c.phase_kind IN ('accuracy', 'member') AND :samples > 0"

_FACTS = f"""{_CHOSEN}
, rows AS (
    SELECT c.phase, f.ordinal, c.phase_kind, c.is_reused, c.source_phase, f.sample, f.repeat, {_COMMON}
    FROM chosen c JOIN fact f ON f.run_id = c.source_run_id AND f.phase = c.source_phase
    UNION ALL
    SELECT c.phase, k.ordinal, c.phase_kind, true, k.source_phase,
           CASE WHEN {_NUMBERED} THEN k.ordinal % :samples ELSE f.sample END,
           CASE WHEN {_NUMBERED} THEN k.ordinal / :samples ELSE f.repeat END, {_COMMON}
    FROM chosen c
    JOIN reused_fact k ON k.run_id = :run AND k.phase = c.phase AND NOT c.is_reused
    JOIN fact f ON f.run_id = k.source_run_id AND f.phase = k.source_phase AND f.ordinal = k.source_ordinal
)
SELECT {_SELECTED} FROM rows"""  # noqa: S608 - consists of this module's own column names
_FACTS_OF_ORDINALS = f"{_FACTS} WHERE ordinal = ANY(CAST(:ordinals AS bigint[]))"
