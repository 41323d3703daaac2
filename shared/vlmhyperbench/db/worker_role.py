"""The account by which workers of other machines use the database: it neither changes tables nor sees any secret."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from vlmhyperbench.errors import Unavailable

HIDDEN: Final = ("api_key", "join_token", "idempotency_key", "alembic_version")
"""Tables that no worker reads or writes."""


def ensure(database_url: str, worker_url: str) -> None:
    """Make the account of the second URL in the database of the first, or give it its password and rights anew.

    Both URLs naming the same account changes nothing.

    Raises:
        Unavailable: the database does not answer, or its account may not make others.
    """
    user, worker = make_url(database_url).username, make_url(worker_url)
    if worker.username in (None, user):
        return
    engine = create_engine(database_url, poolclass=NullPool, connect_args={"connect_timeout": 10})
    try:
        with engine.begin() as connection:
            _ensure(connection, str(worker.username), str(worker.password or ""))
    except DBAPIError as error:
        raise Unavailable(
            f"The account {worker.username} for workers of other machines cannot be made: {error.orig}",
            cure="Let the account of VLMHB_DATABASE_URL make roles (CREATEROLE).",
        ) from error
    finally:
        engine.dispose()


def _ensure(connection: Connection, name: str, password: str) -> None:
    quoted = connection.dialect.identifier_preparer.quote_identifier(name)
    is_known = connection.scalar(text("SELECT 1 FROM pg_roles WHERE rolname = :name"), {"name": name})
    # Statements about roles take no parameters: the server itself quotes the password.
    secret = connection.scalar(text("SELECT quote_literal(:password)"), {"password": password})
    verb = "ALTER" if is_known else "CREATE"
    database = connection.dialect.identifier_preparer.quote_identifier(str(connection.engine.url.database))
    tables = connection.scalars(text("SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public'")).all()
    hidden = [table for table in tables if table in HIDDEN]
    for statement in (
        f"{verb} ROLE {quoted} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD {secret}",
        f"GRANT CONNECT ON DATABASE {database} TO {quoted}",
        f"GRANT USAGE ON SCHEMA public TO {quoted}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {quoted}",
        f"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {quoted}",
        *(f"REVOKE ALL ON {table} FROM {quoted}" for table in hidden),
    ):
        connection.exec_driver_sql(statement.replace("%", "%%"))
