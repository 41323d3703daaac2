"""Add the manifest of the examples that stand before the questions of a run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_KEY = "run_examples_id_fkey"


def upgrade() -> None:
    op.add_column("run", sa.Column("examples_id", sa.String(), nullable=True))
    op.create_foreign_key(_KEY, "run", "sample_manifest", ["examples_id"], ["id"])


def downgrade() -> None:
    op.drop_constraint(_KEY, "run", type_="foreignkey")
    op.drop_column("run", "examples_id")
