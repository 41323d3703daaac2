"""Add the state of devices, because a faulty GPU is quarantined, and mark workers whose devices are only declared."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("device", sa.Column("state", sa.String(), nullable=False, server_default="OK"))
    op.add_column("device", sa.Column("state_reason", sa.String(), nullable=True))
    op.add_column("device", sa.Column("state_by", sa.String(), nullable=True))
    op.add_column("device", sa.Column("state_since", sa.DateTime(timezone=True), nullable=True))
    op.create_index("ix_device_broken", "device", ["uuid"], postgresql_where=sa.text("state = 'BROKEN'"))
    op.add_column("worker", sa.Column("is_declared", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    op.drop_column("worker", "is_declared")
    op.drop_index("ix_device_broken", table_name="device")
    for name in ("state_since", "state_by", "state_reason", "state"):
        op.drop_column("device", name)
