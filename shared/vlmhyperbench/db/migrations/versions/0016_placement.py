"""Store what jobs and targets need of devices, and which workers, devices and machines are drained."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Until now every job had all devices of its worker alone.
    op.add_column("job", sa.Column("is_timed", sa.Boolean(), server_default=sa.true(), nullable=False))
    op.add_column("job", sa.Column("devices", sa.Integer(), server_default="1", nullable=False))
    op.add_column("job", sa.Column("is_simulated", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.create_index(
        "ix_job_shape",
        "job",
        [
            "kind",
            "project_id",
            "target_digest",
            "is_timed",
            sa.text("priority DESC"),
            "created_at",
            "range_start",
            "id",
        ],
        postgresql_where=sa.text("state = 'READY'"),
    )
    op.create_table(
        "memory_estimate",
        sa.Column("target_digest", sa.String(), primary_key=True),
        sa.Column("device_bytes", sa.BigInteger(), nullable=False),
        sa.Column("host_bytes", sa.BigInteger(), nullable=False),
        sa.Column("device_share", sa.Float(), nullable=True),
        sa.Column("knobs", sa.ARRAY(sa.String()), server_default="{}", nullable=False),
        sa.Column("estimated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
    )
    op.create_table(
        "memory_peak",
        sa.Column("target_digest", sa.String(), primary_key=True),
        sa.Column("device_name", sa.String(), primary_key=True),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("measured_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
    )
    op.create_table(
        "drain",
        sa.Column("id", sa.Uuid(), primary_key=True),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("drained_by", sa.String(), nullable=False),
        sa.Column("drained_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("resumed_by", sa.String(), nullable=True),
        sa.Column("resumed_at", sa.DateTime(timezone=True), nullable=True),
    )
    op.create_index(
        "ix_drain_open", "drain", ["scope", "name"], unique=True, postgresql_where=sa.text("resumed_at IS NULL")
    )


def downgrade() -> None:
    for table in ("drain", "memory_peak", "memory_estimate"):
        op.drop_table(table)
    op.drop_index("ix_job_shape", "job")
    for name in ("is_simulated", "devices", "is_timed"):
        op.drop_column("job", name)
