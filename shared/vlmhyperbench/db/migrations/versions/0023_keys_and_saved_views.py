"""Record who made and who revoked an API key, and keep the views that people save of lists."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("api_key", sa.Column("created_by", sa.String(), nullable=True))
    op.add_column("api_key", sa.Column("revoked_by", sa.String(), nullable=True))
    op.create_table(
        "saved_view",
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("page", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("saved_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "principal", "page", "name"),
    )


def downgrade() -> None:
    op.drop_table("saved_view")
    op.drop_column("api_key", "revoked_by")
    op.drop_column("api_key", "created_by")
