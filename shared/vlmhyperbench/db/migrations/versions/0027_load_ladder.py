"""Add what the smallest load of a target needs, and the models that a worker is asked to load or unload."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("memory_estimate", sa.Column("min_device_bytes", sa.BigInteger(), nullable=True))
    op.add_column("memory_estimate", sa.Column("min_host_bytes", sa.BigInteger(), nullable=True))
    op.create_table(
        "held_model",
        sa.Column("project_id", sa.String(), primary_key=True),
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("target", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("target_digest", sa.String(), nullable=False),
        sa.Column("wanted", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("worker_id", sa.Uuid(), nullable=True),
        sa.Column("is_pinned", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("asked_by", sa.String(), nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("wanted IN ('loaded', 'unloaded')", name="held_model_wanted"),
        sa.CheckConstraint(
            "state IN ('waiting', 'loading', 'loaded', 'unloaded', 'error')", name="held_model_state"
        ),
    )


def downgrade() -> None:
    op.drop_table("held_model")
    op.drop_column("memory_estimate", "min_host_bytes")
    op.drop_column("memory_estimate", "min_device_bytes")
