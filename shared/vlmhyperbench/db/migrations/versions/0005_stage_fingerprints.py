"""Store the stage fingerprint of measures, by which a rerun decides whether it can reuse them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("measure_manifest", sa.Column("fingerprint", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("measure_manifest", "fingerprint")
