"""Alembic's environment script, run for every command: uses the connection and the transaction of the caller."""

from __future__ import annotations

from alembic import context

from vlmhyperbench.db.tables import metadata

PARTITIONS = "fact_part_"
"""Prefix of the partitions of `fact`, which the code never names."""

context.configure(
    include_name=lambda name, kind, _parents: kind != "table" or not str(name).startswith(PARTITIONS),
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    compare_type=True,
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
