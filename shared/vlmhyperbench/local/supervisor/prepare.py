"""Migrate the database and register the stack's own keys, in a short-lived child process."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from vlmhyperbench.db import api_keys, migrations, worker_accounts
from vlmhyperbench.db.engine import Database
from vlmhyperbench.domain.api_keys import ALL_SCOPES, hmac_of, prefix_of
from vlmhyperbench.errors import Unavailable, VlmHyperBenchError
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.settings import Settings

PRINCIPAL = "local"
MONITOR = "monitor"


def main() -> int:
    """Migrate, then register the keys; print an error on one line."""
    try:
        settings = Settings.load()
        migrations.upgrade(settings.database_url.get_secret_value())
        worker_accounts.prepare(
            settings.database_url.get_secret_value(), settings.worker_database_url.get_secret_value()
        )
        asyncio.run(_register(settings))
    except VlmHyperBenchError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


async def _register(settings: Settings) -> None:
    home = Home(settings.home)
    database = Database(settings.database_url.get_secret_value(), name="prepare")
    try:
        await _add(settings, database, home.api_key(), home.api_key_file, PRINCIPAL, ALL_SCOPES)
        await _add(settings, database, home.metrics_key(), home.metrics_key_file, MONITOR, "metrics:read")
    finally:
        await database.close()


async def _add(settings: Settings, database: Database, key: str | None, path: Path, principal: str, scope: str) -> None:
    prefix = prefix_of(key) if key is not None else None
    if key is None or prefix is None:
        raise Unavailable(f"{path} has no API key.", cure="Remove it and start the stack again.")
    async with database.transaction() as session:
        await api_keys.add(
            session,
            prefix=prefix,
            hmac_sha256=hmac_of(key, settings.key_pepper.get_secret_value()),
            principal=principal,
            project_id=settings.project,
            scopes=[scope],
        )


if __name__ == "__main__":
    sys.exit(main())
