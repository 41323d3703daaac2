"""Store the trace under which a run or an experiment was submitted, and find alerts without reading every event."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("run", sa.Column("traceparent", sa.String(), nullable=True))
    op.add_column("experiment", sa.Column("traceparent", sa.String(), nullable=True))
    op.create_index("ix_event_alert", "event", ["ts"], postgresql_where=sa.text("type = 'alert.raised'"))


def downgrade() -> None:
    op.drop_index("ix_event_alert", table_name="event")
    op.drop_column("experiment", "traceparent")
    op.drop_column("run", "traceparent")
