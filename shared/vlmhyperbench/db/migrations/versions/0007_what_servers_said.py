"""Keep beside each failed request what the server said, so that the most frequent error can be told at once."""

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
