"""Compare the schema of a database with that of this version, before a service works with it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from psycopg.errors import InsufficientPrivilege, UndefinedTable
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from vlmhyperbench.db.engine import Database
from vlmhyperbench.errors import NotReady
from vlmhyperbench.logs import get_logger

_LOG = get_logger(__name__)
SCHEMA_DIFFERS: Final = "schema_differs"
REVISIONS: Final = frozenset(
    path.name[:4] for path in Path(__file__).with_name("migrations").glob("versions/[0-9][0-9][0-9][0-9]_*.py")
)
"""Every revision that this version knows, by the names of their files: to import the migrations takes a while."""
NEWEST: Final = max(REVISIONS)


async def check_schema(database: Database, *, may_be_newer: bool = False) -> None:
    """Refuse a database whose schema is older than this version's, or newer.

    Args:
        database: The database.
        may_be_newer: Whether a newer schema is only logged: migrations keep what workers of the version before use.

    Raises:
        NotReady: the schema is another one (code `schema_differs`).
        Unavailable: Postgres does not answer.
    """
    try:
        async with database.transaction() as session:
            revision = await session.scalar(text("SELECT version_num FROM alembic_version"))
    except DBAPIError as error:
        # The migrations of this version, or `prepare` after them, give the account of a worker the right to read it.
        if not isinstance(error.orig, (UndefinedTable, InsufficientPrivilege)):
            raise
        revision = None
    if revision == NEWEST:
        return
    if revision in REVISIONS or revision is None:
        raise NotReady(
            f"The schema of the database is {revision or 'none that this account may see'}, older than the {NEWEST} of "
            "this version.",
            cure="Start the stack of this version first, which migrates it: `vlmhyperbench up`, with containers "
            "`docker compose up migrate`. Or install the version of the stack.",
            code=SCHEMA_DIFFERS,
        )
    if not may_be_newer:
        raise NotReady(
            f"The schema of the database is {revision}, newer than the {NEWEST} of this version.",
            cure="Install the version of the stack that has migrated it, or restore the backup made before.",
            code=SCHEMA_DIFFERS,
        )
    _LOG.warning("database.schema_is_newer", schema=revision, own=NEWEST)
