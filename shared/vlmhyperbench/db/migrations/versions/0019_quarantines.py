"""Keep on record which devices were quarantined and who released them; find the last jobs of a target by an index."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "quarantine",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), primary_key=True),
        sa.Column("device", sa.String(), nullable=False),
        sa.Column("device_name", sa.String(), nullable=False),
        sa.Column("worker", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("released_by", sa.String(), nullable=True),
        sa.Column("released_at", sa.DateTime(timezone=True), nullable=True),
    )
    op.create_index(
        "ix_quarantine_open", "quarantine", ["device"], unique=True, postgresql_where=sa.text("released_at IS NULL")
    )
    op.execute(_CARRY_OVER)
    op.create_index(
        "ix_job_done",
        "job",
        ["target_digest", sa.text("finished_at DESC")],
        postgresql_where=sa.text("state = 'DONE' AND kind = 'GENERATE'"),
    )


def downgrade() -> None:
    op.drop_index("ix_job_done", "job")
    op.drop_table("quarantine")


# Several boots of a worker may offer a device that is in quarantine: the first of them has put it there.
_CARRY_OVER = """
INSERT INTO quarantine (device, device_name, worker, host, reason, since)
SELECT DISTINCT ON (d.uuid) d.uuid, d.name, COALESCE(d.state_by, w.name), w.host,
       COALESCE(d.state_reason, 'unknown'), COALESCE(d.state_since, now())
FROM device d JOIN worker w ON w.id = d.worker_id WHERE d.state = 'BROKEN'
ORDER BY d.uuid, d.state_since, w.registered_at
"""
