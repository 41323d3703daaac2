"""Drop the hash of each answer's text, which nothing read: the text itself is in the file of its chunk."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_column("fact", "text_sha256")


def downgrade() -> None:
    op.add_column("fact", sa.Column("text_sha256", sa.String(), nullable=True))
