"""Store the short id of the evaluation identity with each manifest of measures."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("measure_manifest", sa.Column("evaluation_id", sa.String(), nullable=True))
    op.create_index(op.f("ix_measure_manifest_evaluation_id"), "measure_manifest", ["evaluation_id"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_measure_manifest_evaluation_id"), table_name="measure_manifest")
    op.drop_column("measure_manifest", "evaluation_id")
