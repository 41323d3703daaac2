"""Keep which server a job asks, so that no two are measured on it at once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("job", sa.Column("server", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("job", "server")
