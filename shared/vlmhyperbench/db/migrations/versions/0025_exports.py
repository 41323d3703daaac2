"""Keep the exports that are asked for through the API, with their leases."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    instant = sa.DateTime(timezone=True)
    op.create_table(
        "export",
        sa.Column("id", sa.Uuid(), primary_key=True),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("run_ids", sa.ARRAY(sa.Uuid()), nullable=False),
        sa.Column("format", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False, server_default="QUEUED"),
        sa.Column("done", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("total", sa.BigInteger(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("claim_id", sa.Uuid(), nullable=True),
        sa.Column("lease_until", instant, nullable=True),
        sa.Column("name", sa.String(), nullable=True),
        sa.Column("storage_key", sa.String(), nullable=True),
        sa.Column("sha256", sa.String(), nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("created_at", instant, nullable=False, server_default=sa.func.now()),
        sa.Column("finished_at", instant, nullable=True),
        sa.Column("expires_at", instant, nullable=True),
    )
    op.create_index("ix_export_project_id", "export", ["project_id"])


def downgrade() -> None:
    op.drop_table("export")
