"""Add the use of devices, which workers record with their heartbeats."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("device", sa.Column("used_bytes", sa.BigInteger(), nullable=True))
    op.add_column("device", sa.Column("util_percent", sa.Float(), nullable=True))
    op.add_column("device", sa.Column("read_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    for name in ("read_at", "util_percent", "used_bytes"):
        op.drop_column("device", name)
