"""Add what memory a model lacked that a user has asked to load."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("held_model", sa.Column("shortage", postgresql.JSONB(), nullable=True))


def downgrade() -> None:
    op.drop_column("held_model", "shortage")
