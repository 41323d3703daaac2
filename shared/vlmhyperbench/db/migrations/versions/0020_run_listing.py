"""Keep a small row per run for lists: what it is filtered and ordered by, its tags and its note."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "run_listing",
        sa.Column("run_id", sa.Uuid(), sa.ForeignKey("run.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("project_id", sa.String(), nullable=False),
        *(
            sa.Column(name, sa.String(), nullable=False)
            for name in ("target", "model", "backend", "task", "dataset", "scenario")
        ),
        sa.Column("columns", postgresql.JSONB(), nullable=False),
        sa.Column("tags", sa.ARRAY(sa.String()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("labelled_by", sa.String(), nullable=True),
        sa.Column("labelled_at", sa.DateTime(timezone=True), nullable=True),
    )
    op.create_index("ix_run_listing_project_id", "run_listing", ["project_id"])
    op.execute(_CARRY_OVER)


def downgrade() -> None:
    op.drop_table("run_listing")


# Runs that have ended keep only what their headline says: their summaries are files, which no migration opens.
_CARRY_OVER = """
INSERT INTO run_listing (run_id, project_id, target, model, backend, task, dataset, scenario, columns, note)
SELECT r.id, r.project_id, t.served || COALESCE(' (' || (r.spec #>> '{target,quantization}') || ')', ''), t.served,
       COALESCE(r.spec #>> '{target,backend}', r.spec #>> '{target,backend_class}', 'import'),
       COALESCE(r.spec ->> 'task', ''), COALESCE(r.spec #>> '{dataset,name}', ''),
       COALESCE(r.spec #>> '{scenario,name}', ''), COALESCE(plain.columns, '{}') || COALESCE(scores.columns, '{}'), ''
FROM run r
CROSS JOIN LATERAL (SELECT COALESCE(r.spec #>> '{target,model}', r.spec #>> '{target,model_name}', '') AS served) t
LEFT JOIN LATERAL (
  SELECT jsonb_object_agg(name, value) AS columns FROM jsonb_each(r.headline) AS each (name, value)
  WHERE jsonb_typeof(value) IN ('number', 'string', 'boolean')
    AND name NOT IN ('run', 'name', 'target', 'task', 'state')
) plain ON true
LEFT JOIN LATERAL (
  SELECT jsonb_object_agg(column_name, value) AS columns
  FROM jsonb_array_elements(r.headline -> 'scores') WITH ORDINALITY AS score (cell, no)
  CROSS JOIN LATERAL (VALUES
    ('metrics.' || (cell ->> 'metric'), cell -> 'value'),
    ('metrics.' || (cell ->> 'metric') || '.low', cell -> 'ci_low'),
    ('metrics.' || (cell ->> 'metric') || '.high', cell -> 'ci_high'),
    ('metrics.' || (cell ->> 'metric') || '.n_scored', cell -> 'n'),
    ('metrics.' || (cell ->> 'metric') || '.n_unscored', cell -> 'n_without_value'),
    (CASE WHEN no = 1 THEN 'metric' END, cell -> 'metric')
  ) AS named (column_name, value)
  WHERE column_name IS NOT NULL AND jsonb_typeof(value) IN ('number', 'string')
) scores ON true
"""
