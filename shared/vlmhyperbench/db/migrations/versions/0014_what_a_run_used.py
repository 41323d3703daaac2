"""Store which environment a claim's engine ran in, and where each value of a run's spec was written."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("claim", sa.Column("environment", postgresql.JSONB(astext_type=sa.Text()), nullable=True))
    op.add_column("run", sa.Column("origins", postgresql.JSONB(astext_type=sa.Text()), nullable=True))


def downgrade() -> None:
    op.drop_column("run", "origins")
    op.drop_column("claim", "environment")
