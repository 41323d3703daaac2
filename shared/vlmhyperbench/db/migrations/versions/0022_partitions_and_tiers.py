"""Partition the facts by the hash of their run, and record where the rows of finished runs are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

PARTITIONS = 16


def upgrade() -> None:
    _lock()
    _count_what_is_reused()
    _create_run_tier()
    op.execute("ALTER TABLE fact RENAME TO fact_whole")
    op.execute("ALTER TABLE fact_whole DROP CONSTRAINT fact_pkey")
    op.execute("DROP INDEX ix_fact_request")
    op.execute("CREATE TABLE fact (LIKE fact_whole INCLUDING DEFAULTS) PARTITION BY HASH (run_id)")
    for part in range(PARTITIONS):
        op.execute(
            f"CREATE TABLE fact_part_{part:02} PARTITION OF fact "
            f"FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {part})"
        )
    _carry_over("fact_whole")


def downgrade() -> None:
    _lock()
    if op.get_bind().scalar(sa.text("SELECT count(*) FROM run_tier WHERE tier <> 'hot'")):
        raise RuntimeError(_NOT_HOT)
    op.execute("ALTER TABLE fact RENAME TO fact_parted")
    op.execute("ALTER TABLE fact_parted DROP CONSTRAINT fact_pkey")
    op.execute("DROP INDEX ix_fact_request")
    op.execute("CREATE TABLE fact (LIKE fact_parted INCLUDING DEFAULTS)")
    _carry_over("fact_parted")
    op.drop_table("run_tier")
    op.drop_column("reused_fact", "is_ok")
    op.drop_column("reused_phase", "failed")
    op.drop_column("reused_phase", "rows")


def _lock() -> None:
    """Take every lock at once and in the order of the product's transactions, so that none of them is in the way."""
    op.execute("LOCK TABLE run, reused_phase, reused_fact, fact IN ACCESS EXCLUSIVE MODE")


def _carry_over(source: str) -> None:
    """Copy the rows, then build the indexes, then drop the source; all or nothing."""
    op.execute(f"INSERT INTO fact SELECT * FROM {source}")  # noqa: S608 - a name of this module
    rows = "SELECT (SELECT count(*) FROM fact), (SELECT count(*) FROM {})"
    copied, present = op.get_bind().execute(sa.text(rows.format(source))).one()
    if copied != present:
        raise RuntimeError(f"{copied} of {present} rows of facts were copied; nothing was changed.")
    op.execute(f"DROP TABLE {source}")
    op.create_primary_key("fact_pkey", "fact", ["run_id", "phase", "ordinal"])
    op.create_index(
        "ix_fact_request",
        "fact",
        ["request_sha256"],
        postgresql_where=sa.text("status = 'ok' AND origin = 'live'"),
    )


def _count_what_is_reused() -> None:
    op.add_column("reused_phase", sa.Column("rows", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("reused_phase", sa.Column("failed", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("reused_fact", sa.Column("is_ok", sa.Boolean(), nullable=False, server_default=sa.true()))
    op.execute(_COUNT_PHASES)
    op.execute(_COUNT_ROWS)
    op.alter_column("reused_phase", "rows", server_default=None)
    op.alter_column("reused_phase", "failed", server_default=None)
    op.alter_column("reused_fact", "is_ok", server_default=None)


def _create_run_tier() -> None:
    documents = postgresql.JSONB(astext_type=sa.Text())
    instant = sa.DateTime(timezone=True)
    op.create_table(
        "run_tier",
        sa.Column("run_id", sa.Uuid(), sa.ForeignKey("run.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("tier", sa.String(), nullable=False, server_default="hot"),
        sa.Column("is_pinned", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("pinned_by", sa.String(), nullable=True),
        sa.Column("rows", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("counts", documents, nullable=False),
        sa.Column("failures", documents, nullable=False),
        sa.Column("facts_key", sa.String(), nullable=True),
        sa.Column("facts_sha256", sa.String(), nullable=True),
        sa.Column("facts_bytes", sa.BigInteger(), nullable=True),
        sa.Column("archive_key", sa.String(), nullable=True),
        sa.Column("archive_sha256", sa.String(), nullable=True),
        sa.Column("archive_bytes", sa.BigInteger(), nullable=True),
        sa.Column("has_loose_files", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("wanted", sa.String(), nullable=True),
        sa.Column("wanted_by", sa.String(), nullable=True),
        sa.Column("wanted_at", instant, nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("error_at", instant, nullable=True),
        sa.Column("moved_at", instant, nullable=True),
        sa.Column("restored_at", instant, nullable=True),
    )
    op.create_index("ix_run_tier_wanted", "run_tier", ["wanted_at"], postgresql_where=sa.text("wanted IS NOT NULL"))


_NOT_HOT = (
    "Some runs are warm or cold, and an earlier version cannot read them. Restore them with "
    "`vlmhyperbench storage restore --all --tier hot` first; nothing was changed."
)

_COUNT_PHASES = """
UPDATE reused_phase SET rows = counted.rows, failed = counted.failed
FROM (
    SELECT fact.run_id, fact.phase, count(*) AS rows, count(*) FILTER (WHERE fact.status <> 'ok') AS failed
    FROM fact JOIN (SELECT DISTINCT source_run_id, source_phase FROM reused_phase) source
      ON source.source_run_id = fact.run_id AND source.source_phase = fact.phase
    GROUP BY fact.run_id, fact.phase
) counted
WHERE counted.run_id = reused_phase.source_run_id AND counted.phase = reused_phase.source_phase
"""

_COUNT_ROWS = """
UPDATE reused_fact SET is_ok = false
FROM fact
WHERE fact.run_id = reused_fact.source_run_id AND fact.phase = reused_fact.source_phase
  AND fact.ordinal = reused_fact.source_ordinal AND fact.status <> 'ok'
"""
