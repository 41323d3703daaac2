"""Store the cores and accelerators of workers and claims, and when claims sent requests, to see which disturbed others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("worker", sa.Column("machine_id", sa.String(), nullable=True))
    op.add_column("worker", sa.Column("cores", sa.ARRAY(sa.Integer()), nullable=True))
    op.add_column("claim", sa.Column("machine_id", sa.String(), nullable=True))
    op.add_column("claim", sa.Column("cores", sa.ARRAY(sa.Integer()), nullable=True))
    op.add_column("claim", sa.Column("gpus", sa.ARRAY(sa.String()), nullable=True))
    op.add_column("claim", sa.Column("sending_from_ns", sa.BigInteger(), nullable=True))
    op.add_column("claim", sa.Column("sending_until_ns", sa.BigInteger(), nullable=True))
    op.create_index(
        "ix_claim_machine", "claim", ["machine_id", "started_at"], postgresql_where=sa.text("sending_from_ns IS NOT NULL")
    )


def downgrade() -> None:
    op.drop_index("ix_claim_machine", table_name="claim")
    for name in ("sending_until_ns", "sending_from_ns", "gpus", "cores", "machine_id"):
        op.drop_column("claim", name)
    for name in ("cores", "machine_id"):
        op.drop_column("worker", name)
