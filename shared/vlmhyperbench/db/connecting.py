"""One connection without a pool, for commands that work on the database once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from vlmhyperbench.db.engine import unavailable

_CONNECT_S = 10


@contextmanager
def connected(url: str, *, failure: str) -> Iterator[Connection]:
    """Open a connection and a transaction, which is committed when the block ends; `failure` begins the error.

    Raises:
        Unavailable: the database does not answer, or refuses the account.
    """
    engine = create_engine(url, poolclass=NullPool, connect_args={"connect_timeout": _CONNECT_S})
    try:
        with engine.begin() as connection:
            yield connection
    except OperationalError as error:
        raise unavailable(error, failure=failure) from error
    finally:
        engine.dispose()
