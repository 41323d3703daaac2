"""What a backup reads and a restore changes in the database, and how PostgreSQL's own programs find it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession

from vlmhyperbench.db.connecting import connected
from vlmhyperbench.db.engine import Database

_FAILURE = "The database does not answer"
_STATEMENT_S = 3600.0


class Reference(NamedTuple):
    """A stored file that a row names."""

    key: str
    sha256: str


class ImportedAnswers(NamedTuple):
    """A file of answers that was uploaded for a run."""

    project_id: str
    sha256: str


class Snapshot(NamedTuple):
    """What the database held at one instant."""

    id: str
    """Name of the snapshot, which other connections may read as long as it is open."""
    server_version: str
    references: list[Reference]
    manifests: list[Reference]
    """Sample manifests, which name the images."""
    imported: list[ImportedAnswers]


@asynccontextmanager
async def snapshot(database_url: str) -> AsyncIterator[Snapshot]:
    """Hold one instant of the database while the block runs; others go on writing.

    Raises:
        Unavailable: the database does not answer.
    """
    database = Database(database_url, statement_timeout_s=_STATEMENT_S, name="backup", pool_size=1, max_overflow=0)
    try:
        async with database.transaction() as session:
            await session.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))
            await session.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
            yield await _read(session)
    finally:
        await database.close()


async def _read(session: AsyncSession) -> Snapshot:
    head = (await session.execute(text(_HEAD))).one()
    references = [Reference(row.key, row.sha256) for row in await session.execute(text(_REFERENCES))]
    manifests = [Reference(row.key, row.sha256) for row in await session.execute(text(_MANIFESTS))]
    imported = [ImportedAnswers(row.project_id, row.sha256) for row in await session.execute(text(_IMPORTED))]
    return Snapshot(head.id, head.version, references, manifests, imported)


def program_environment(database_url: str) -> dict[str, str]:
    """Return the variables by which pg_dump and pg_restore find a database; a password is never an argument."""
    url = make_url(database_url)
    query = {name: value if isinstance(value, str) else value[0] for name, value in url.query.items()}
    known = {
        "PGHOST": url.host or query.get("host"),
        "PGPORT": str(url.port) if url.port else query.get("port"),
        "PGUSER": url.username,
        "PGPASSWORD": None if url.password is None else str(url.password),
        "PGDATABASE": url.database,
        "PGSSLMODE": query.get("sslmode"),
        "PGSSLROOTCERT": query.get("sslrootcert"),
        "PGCONNECT_TIMEOUT": "10",
    }
    return {name: value for name, value in known.items() if value}


def is_empty(database_url: str) -> bool:
    """Return whether a database has no table.

    Raises:
        Unavailable: the database does not answer.
    """
    with connected(database_url, failure=_FAILURE) as connection:
        return int(connection.execute(text(_TABLES)).scalar_one()) == 0


def forget_workers(database_url: str) -> None:
    """Record that no worker of the backup is there: those of the restored platform register anew.

    Raises:
        Unavailable: the database does not answer.
    """
    with connected(database_url, failure=_FAILURE) as connection:
        connection.execute(text("UPDATE worker SET state = 'GONE' WHERE state IN ('LIVE', 'DRAINING')"))


_HEAD = "SELECT pg_export_snapshot() AS id, current_setting('server_version') AS version"

_REFERENCES = """
WITH archived AS (SELECT run_id FROM run_tier WHERE tier = 'cold')
SELECT storage_key AS key, sha256 FROM chunk WHERE run_id NOT IN (SELECT run_id FROM archived)
UNION SELECT storage_key, sha256 FROM measure_manifest
UNION SELECT storage_key, sha256 FROM artifact
UNION SELECT facts_key, facts_sha256 FROM run_tier WHERE tier = 'warm'
UNION SELECT archive_key, archive_sha256 FROM run_tier WHERE tier = 'cold'
ORDER BY key
"""

_MANIFESTS = "SELECT storage_key AS key, id AS sha256 FROM sample_manifest ORDER BY id"

_IMPORTED = """
SELECT DISTINCT project_id, spec -> 'target' ->> 'answers' AS sha256 FROM run
WHERE spec -> 'target' ->> 'answers' IS NOT NULL ORDER BY project_id, sha256
"""

_TABLES = """
SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'S') AND n.nspname = 'public'
"""
