"""Find out whether the database refuses an account: the usual driver reports no SQLSTATE of a failed connection."""

from __future__ import annotations

import getpass
import ssl
from collections.abc import Iterator
from typing import Final

from sqlalchemy.engine import make_url

from vlmhyperbench.errors import Denied

ACCOUNT_REFUSED: Final = "account_refused"
"""Code of the error that ends a worker whose account has ended."""
_ANSWER_S: Final = 10.0
_REFUSED: Final = frozenset({"28000", "28P01", "42501"})
"""SQLSTATEs of a connection that is refused because of its account: it may not log in, its password is wrong or it does
not exist, it may not connect to this database."""


def is_refused(database_url: str) -> bool:
    """Connect once; return whether the server refuses the account. Any other answer, or none, is no refusal."""
    import pg8000.dbapi  # only a worker that the database does not answer needs it

    url = make_url(database_url)
    folder, port = str(url.query.get("host", "")), url.port or 5432
    unix_socket = f"{folder}/.s.PGSQL.{port}" if folder.startswith("/") else None
    try:
        connection = pg8000.dbapi.connect(
            user=url.username or getpass.getuser(),
            password=url.password or "",  # without one, this driver fails where the server asks for it
            database=url.database,
            host=None if unix_socket else url.host or "localhost",
            port=port,
            unix_sock=unix_socket,
            ssl_context=_tls(str(url.query.get("sslmode", "")), str(url.query.get("sslrootcert", ""))),
            timeout=_ANSWER_S,
        )
    except (pg8000.dbapi.Error, OSError) as error:
        return any(code in _REFUSED for code in _sqlstates(error))
    connection.close()
    return False


def _sqlstates(error: BaseException | None) -> Iterator[str]:
    """Yield the SQLSTATEs of an error and of those before it: closing a refused connection may fail, too."""
    while error is not None:
        answer = error.args[0] if error.args else None
        if isinstance(answer, dict):
            yield str(answer.get("C"))
        error = error.__context__


def refusal(url: str) -> Denied:
    """Return the error that the account of a worker in the database at this URL is refused."""
    return Denied(
        f"The database refuses the account {make_url(url).username} of this worker: its join token was revoked.",
        cure="Make a new token on the server (vlmhyperbench workers token create) and join with it.",
        code=ACCOUNT_REFUSED,
    )


def _tls(mode: str, ca_file: str) -> ssl.SSLContext | None:
    """Return how the server is verified; without a demand for TLS, none."""
    if mode in {"", "disable", "allow", "prefer"}:
        return None
    context = ssl.create_default_context(cafile=ca_file if ca_file not in {"", "system"} else None)
    context.check_hostname = mode == "verify-full"
    if mode == "require":
        context.verify_mode = ssl.CERT_NONE
    return context
