"""Store the server's error message with each failed request, so that errors can be counted in SQL."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("fact", sa.Column("error", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("fact", "error")
