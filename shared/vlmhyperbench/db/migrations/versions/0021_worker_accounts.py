"""Record the account that the workers of a join token have; let nobody log in by the one that all of them shared."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("join_token", sa.Column("account", sa.String(), nullable=True))
    op.add_column("join_token", sa.Column("redis_sha256", sa.String(), nullable=True))


    # Where workers are to share an account, it is made anew after the migrations.
    op.execute(
        "DO $$ BEGIN IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'vlmhyperbench_worker')"
        " AND (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)"
        " THEN ALTER ROLE vlmhyperbench_worker NOLOGIN; END IF; END $$"
    )


def downgrade() -> None:
    op.drop_column("join_token", "redis_sha256")
    op.drop_column("join_token", "account")
