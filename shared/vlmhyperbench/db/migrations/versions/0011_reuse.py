"""Name what a run takes from other runs "reused", as everything else does: tables, outcomes of SCORE jobs, events."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _rename("kept", "reused")
    op.execute(_OUTCOMES)
    op.execute(_EVENTS)


def downgrade() -> None:
    op.execute(_EVENTS_BACK)
    op.execute(_OUTCOMES_BACK)
    _rename("reused", "kept")


def _rename(old: str, new: str) -> None:
    """Rename both tables with their indexes and constraints."""
    for table, index in (("phase", "source_run_id"), ("fact", "source")):
        op.rename_table(f"{old}_{table}", f"{new}_{table}")
        op.execute(f"ALTER INDEX {old}_{table}_pkey RENAME TO {new}_{table}_pkey")
        op.execute(f"ALTER INDEX ix_{old}_{table}_{index} RENAME TO ix_{new}_{table}_{index}")
    constraint = "phase_source_run_id_fkey"
    op.execute(f"ALTER TABLE {new}_phase RENAME CONSTRAINT {old}_{constraint} TO {new}_{constraint}")


_OUTCOMES = """
UPDATE job SET outcome = jsonb_set(outcome #- '{data,kept}', '{data,reused}', outcome #> '{data,kept}')
WHERE kind = 'SCORE' AND outcome -> 'data' ? 'kept'
"""

_OUTCOMES_BACK = """
UPDATE job SET outcome = jsonb_set(outcome #- '{data,reused}', '{data,kept}', outcome #> '{data,reused}')
WHERE kind = 'SCORE' AND outcome -> 'data' ? 'reused'
"""

_EVENTS = """
UPDATE event SET data = data - 'kept_of' || jsonb_build_object('reused_from', data -> 'kept_of')
WHERE type = 'run.indexed' AND data ? 'kept_of'
"""

_EVENTS_BACK = """
UPDATE event SET data = data - 'reused_from' || jsonb_build_object('kept_of', data -> 'reused_from')
WHERE type = 'run.indexed' AND data ? 'reused_from'
"""
