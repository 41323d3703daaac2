"""Store with jobs and phases the step of their run, and whether their rows are answers of the run.

A judge was a GENERATE job whose params had the key `judge`; now it is a step of its own kind.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("job", "phase"):
        op.add_column(table, sa.Column("step", sa.Integer(), nullable=True))
        op.add_column(table, sa.Column("counts", sa.Boolean(), nullable=True))
    op.execute(_JUDGES)
    op.execute(_PHASES)
    op.execute(_JOBS)
    op.execute(_JUDGES_PHASES)
    for table in ("job", "phase"):
        op.alter_column(table, "step", nullable=False)
        op.alter_column(table, "counts", nullable=False)


def downgrade() -> None:
    op.execute(_JUDGES_BACK)
    op.execute(_JUDGES_PHASES_BACK)
    for table in ("job", "phase"):
        for name in ("counts", "step"):
            op.drop_column(table, name)


# INDEX is step 0, GENERATE or IMPORT step 1; judges follow in the order of their phases, then SCORE and REPORT.
_JUDGES = """
UPDATE job SET kind = 'JUDGE', params = params - 'judge' || jsonb_build_object('metric', params -> 'judge')
WHERE kind = 'GENERATE' AND params ? 'judge'
"""

_PHASES = """
UPDATE phase SET counts = kind NOT IN ('warmup', 'baseline', 'judge'), step = CASE
    WHEN kind = 'judge'
    THEN 2 + (SELECT count(*) FROM phase earlier
              WHERE earlier.run_id = phase.run_id AND earlier.kind = 'judge' AND earlier.no < phase.no)
    ELSE 1 END
"""

_JOBS = """
UPDATE job SET counts = kind IN ('GENERATE', 'IMPORT'), step = CASE kind
    WHEN 'INDEX' THEN 0
    WHEN 'JUDGE' THEN COALESCE((SELECT step FROM phase WHERE phase.run_id = job.run_id AND phase.no = job.phase), 2)
    WHEN 'SCORE' THEN 2 + (SELECT count(*) FROM phase WHERE phase.run_id = job.run_id AND phase.kind = 'judge')
    WHEN 'REPORT' THEN CASE scope WHEN 'experiment' THEN 1 ELSE 2 END
        + (SELECT count(*) FROM phase WHERE phase.run_id = job.run_id AND phase.kind = 'judge')
        + (SELECT count(*) FROM job score WHERE score.run_id = job.run_id AND score.kind = 'SCORE')
    ELSE 1 END
"""

_JUDGES_PHASES = """
UPDATE phase SET params = params - 'judge' || jsonb_build_object('metric', params -> 'judge')
WHERE kind = 'judge' AND params ? 'judge'
"""

_JUDGES_BACK = """
UPDATE job SET kind = 'GENERATE', params = params - 'metric' || jsonb_build_object('judge', params -> 'metric')
WHERE kind = 'JUDGE'
"""

_JUDGES_PHASES_BACK = """
UPDATE phase SET params = params - 'metric' || jsonb_build_object('judge', params -> 'metric') WHERE kind = 'judge'
"""
