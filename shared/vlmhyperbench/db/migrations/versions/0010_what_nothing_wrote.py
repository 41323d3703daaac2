"""Drop two columns that always had the same value: the labels of workers (none) and the state of devices (`OK`)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_column("worker", "labels")
    op.drop_column("device", "state")


def downgrade() -> None:
    empty, ok = sa.text("'{}'::jsonb"), sa.text("'OK'")
    op.add_column("worker", sa.Column("labels", postgresql.JSONB(), nullable=False, server_default=empty))
    op.add_column("device", sa.Column("state", sa.String(), nullable=False, server_default=ok))
    op.alter_column("worker", "labels", server_default=None)
    op.alter_column("device", "state", server_default=None)
