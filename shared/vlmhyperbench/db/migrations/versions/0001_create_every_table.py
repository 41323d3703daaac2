"""Create every table."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "api_key",
        sa.Column("prefix", sa.String(), nullable=False),
        sa.Column("hmac_sha256", sa.String(), nullable=False),
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("scopes", sa.ARRAY(sa.String()), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("prefix"),
    )
    op.create_index(op.f("ix_api_key_principal"), "api_key", ["principal"], unique=False)
    op.create_table(
        "chunk",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("claim_id", sa.Uuid(), nullable=False),
        sa.Column("phase", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("storage_key", sa.String(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "claim_id", "phase", "no"),
    )
    op.create_table(
        "event",
        sa.Column("stream_id", sa.Uuid(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("ts", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("experiment_id", sa.Uuid(), nullable=True),
        sa.Column("run_id", sa.Uuid(), nullable=True),
        sa.Column("job_id", sa.Uuid(), nullable=True),
        sa.Column("stage", sa.String(), nullable=True),
        sa.Column("data", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.PrimaryKeyConstraint("stream_id", "seq"),
    )
    op.create_table(
        "experiment",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("spec", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("spec_digest", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("event_seq", sa.BigInteger(), nullable=False),
        sa.Column("cancel_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_experiment_project_id"), "experiment", ["project_id"], unique=False)
    op.create_table(
        "fact",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("phase", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("ordinal", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("sample", sa.BigInteger(), nullable=False),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("member", sa.Integer(), nullable=False),
        sa.Column("stream", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("origin", sa.String(), nullable=False),
        sa.Column("failure", sa.String(), nullable=True),
        sa.Column("error_code", sa.String(), nullable=True),
        sa.Column("http_status", sa.Integer(), nullable=True),
        sa.Column("finish_reason", sa.String(), nullable=True),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("prompt_tokens", sa.Integer(), nullable=True),
        sa.Column("completion_tokens", sa.Integer(), nullable=True),
        sa.Column("token_source", sa.String(), nullable=True),
        sa.Column("scheduled_ns", sa.BigInteger(), nullable=True),
        sa.Column("sent_ns", sa.BigInteger(), nullable=True),
        sa.Column("queue_ns", sa.BigInteger(), nullable=True),
        sa.Column("ttft_user_ns", sa.BigInteger(), nullable=True),
        sa.Column("ttft_service_ns", sa.BigInteger(), nullable=True),
        sa.Column("tpot_ns", sa.Float(), nullable=True),
        sa.Column("latency_ns", sa.BigInteger(), nullable=True),
        sa.Column("stream_end_ns", sa.BigInteger(), nullable=True),
        sa.Column("request_sha256", sa.String(), nullable=False),
        sa.Column("text_sha256", sa.String(), nullable=True),
        sa.Column("claim_id", sa.Uuid(), nullable=False),
        sa.Column("chunk", sa.Integer(), nullable=False),
        sa.Column("row", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "phase", "ordinal"),
    )
    op.create_table(
        "idempotency_key",
        sa.Column("principal", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("body_sha256", sa.String(), nullable=False),
        sa.Column("resource", sa.String(), nullable=False),
        sa.Column("resource_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("principal", "key"),
    )
    op.create_table(
        "kept_fact",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("phase", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("ordinal", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("source_run_id", sa.Uuid(), nullable=False),
        sa.Column("source_phase", sa.Integer(), nullable=False),
        sa.Column("source_ordinal", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "phase", "ordinal"),
    )
    op.create_index("ix_kept_fact_source", "kept_fact", ["source_run_id"], unique=False)
    op.create_table(
        "sample_manifest",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("dataset_digest", sa.String(), nullable=False),
        sa.Column("storage_key", sa.String(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("samples", sa.BigInteger(), nullable=False),
        sa.Column("unreadable", sa.BigInteger(), nullable=False),
        sa.Column("group_columns", sa.ARRAY(sa.String()), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_sample_manifest_dataset_digest"), "sample_manifest", ["dataset_digest"], unique=False)
    op.create_table(
        "worker",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("queue", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("boot_id", sa.Uuid(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("labels", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("resident", sa.ARRAY(sa.String()), server_default="{}", nullable=False),
        sa.Column("registered_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("last_seen_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_worker_live", "worker", ["kind"], unique=False, postgresql_where=sa.text("state IN ('LIVE', 'DRAINING')")
    )
    op.create_table(
        "device",
        sa.Column("worker_id", sa.Uuid(), nullable=False),
        sa.Column("no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("uuid", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["worker_id"], ["worker.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("worker_id", "no"),
    )
    op.create_table(
        "run",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("experiment_id", sa.Uuid(), nullable=True),
        sa.Column("parent_run_id", sa.Uuid(), nullable=True),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("spec", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("spec_digest", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("is_paused", sa.Boolean(), nullable=False),
        sa.Column("is_dirty", sa.Boolean(), nullable=False),
        sa.Column("cancel_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("event_seq", sa.BigInteger(), nullable=False),
        sa.Column("manifest_id", sa.String(), nullable=True),
        sa.Column("total", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["experiment_id"], ["experiment.id"]),
        sa.ForeignKeyConstraint(["manifest_id"], ["sample_manifest.id"]),
        sa.ForeignKeyConstraint(["parent_run_id"], ["run.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_run_dirty", "run", ["id"], unique=False, postgresql_where=sa.text("is_dirty"))
    op.create_index(op.f("ix_run_experiment_id"), "run", ["experiment_id"], unique=False)
    op.create_index("ix_run_open", "run", ["state"], unique=False, postgresql_where=sa.text("finished_at IS NULL"))
    op.create_index(op.f("ix_run_parent_run_id"), "run", ["parent_run_id"], unique=False)
    op.create_index("ix_run_project_created", "run", ["project_id", "created_at", "id"], unique=False)
    op.create_index(op.f("ix_run_spec_digest"), "run", ["spec_digest"], unique=False)
    op.create_table(
        "artifact",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=True),
        sa.Column("experiment_id", sa.Uuid(), nullable=True),
        sa.Column("claim_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("media_type", sa.String(), nullable=False),
        sa.Column("storage_key", sa.String(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["experiment_id"], ["experiment.id"]),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_artifact_experiment_id"), "artifact", ["experiment_id"], unique=False)
    op.create_index(op.f("ix_artifact_run_id"), "artifact", ["run_id"], unique=False)
    op.create_table(
        "job",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=True),
        sa.Column("experiment_id", sa.Uuid(), nullable=True),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("needs", sa.ARRAY(sa.Uuid()), server_default="{}", nullable=False),
        sa.Column("needs_state", sa.String(), nullable=False),
        sa.Column("phase", sa.Integer(), nullable=True),
        sa.Column("range_start", sa.BigInteger(), nullable=True),
        sa.Column("range_end", sa.BigInteger(), nullable=True),
        sa.Column("target_digest", sa.String(), nullable=True),
        sa.Column("params", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("attempt_id", sa.Uuid(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("claim_id", sa.Uuid(), nullable=True),
        sa.Column("worker_id", sa.Uuid(), nullable=True),
        sa.Column("assigned_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=True),
        sa.Column("fails", sa.Integer(), nullable=False),
        sa.Column("done", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.BigInteger(), nullable=False),
        sa.Column("outcome", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["experiment_id"], ["experiment.id"]),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"]),
        sa.ForeignKeyConstraint(["worker_id"], ["worker.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_job_experiment_id"), "job", ["experiment_id"], unique=False)
    op.create_index(
        "ix_job_ready",
        "job",
        ["kind", "project_id", sa.literal_column("priority DESC"), "created_at", "range_start", "id"],
        unique=False,
        postgresql_where=sa.text("state = 'READY'"),
    )
    op.create_index(op.f("ix_job_run_id"), "job", ["run_id"], unique=False)
    op.create_index(
        "ix_job_worker",
        "job",
        ["worker_id"],
        unique=False,
        postgresql_where=sa.text("state IN ('ASSIGNED', 'RUNNING')"),
    )
    op.create_table(
        "kept_phase",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("phase", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("source_run_id", sa.Uuid(), nullable=False),
        sa.Column("source_phase", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["source_run_id"], ["run.id"]),
        sa.PrimaryKeyConstraint("run_id", "phase"),
    )
    op.create_index(op.f("ix_kept_phase_source_run_id"), "kept_phase", ["source_run_id"], unique=False)
    op.create_table(
        "phase",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("params", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("claim_id", sa.Uuid(), nullable=True),
        sa.Column("count", sa.BigInteger(), nullable=True),
        sa.Column("opened_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"]),
        sa.PrimaryKeyConstraint("run_id", "no"),
    )
    op.create_table(
        "claim",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=True),
        sa.Column("attempt_id", sa.Uuid(), nullable=False),
        sa.Column("worker_id", sa.Uuid(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("boot_id", sa.Uuid(), nullable=False),
        sa.Column("machine", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("engine", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("packages", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("client", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("resources", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("anchor_monotonic_ns", sa.BigInteger(), nullable=True),
        sa.Column("anchor_wall_ns", sa.BigInteger(), nullable=True),
        sa.Column("measured_at", sa.String(), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"]),
        sa.ForeignKeyConstraint(["worker_id"], ["worker.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_claim_job_id"), "claim", ["job_id"], unique=False)
    op.create_index(op.f("ix_claim_run_id"), "claim", ["run_id"], unique=False)
    op.create_table(
        "measure_manifest",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("claim_id", sa.Uuid(), nullable=False),
        sa.Column("no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("storage_key", sa.String(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("metrics", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"]),
        sa.PrimaryKeyConstraint("run_id", "claim_id", "no"),
    )
    op.create_table(
        "reservation",
        sa.Column("attempt_id", sa.Uuid(), nullable=False),
        sa.Column("worker_id", sa.Uuid(), nullable=False),
        sa.Column("device", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("is_exclusive", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"]),
        sa.PrimaryKeyConstraint("attempt_id", "worker_id", "device"),
    )
    op.create_index(op.f("ix_reservation_job_id"), "reservation", ["job_id"], unique=False)


def downgrade() -> None:
    for table in (
        "reservation",
        "measure_manifest",
        "claim",
        "phase",
        "kept_phase",
        "job",
        "artifact",
        "run",
        "device",
        "worker",
        "sample_manifest",
        "kept_fact",
        "idempotency_key",
        "fact",
        "experiment",
        "event",
        "chunk",
        "api_key",
    ):
        op.drop_table(table)
