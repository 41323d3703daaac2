"""Alembic's environment script, run for every command: uses the connection and the transaction of the caller."""

from __future__ import annotations

from alembic import context

from vlmhyperbench.db.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    compare_type=True,
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
