"""Add an index by which answers are found by the hash of their request."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_fact_request",
        "fact",
        ["request_sha256"],
        unique=False,
        postgresql_where=sa.text("status = 'ok' AND origin = 'live'"),
    )


def downgrade() -> None:
    op.drop_index("ix_fact_request", table_name="fact")
