"""Log filters for errors that clients cause: one line each, without tracebacks and without keys from URLs.

uvicorn logs a WebSocket's URL with its query, into which clients may have put a key, and a traceback for text that is
not UTF-8. asyncio logs a traceback for every connection that it cannot accept, and a line for every write to a client
that has left.
"""

from __future__ import annotations

import logging
import resource
import time
from collections.abc import Callable

from vlmhyperbench_sdk.gateway import SECRET_MASK

_QUIET_S = 10.0
"""Minimum interval between two log lines about connections that cannot be accepted."""
_SECRET_HEADERS = frozenset({"x-api-key", "authorization", "cookie", "sec-websocket-protocol"})
_HAS_LEFT = "socket.send() raised exception."
_NO_MORE = "socket.accept() out of system resource"


def quiet_client_errors() -> None:
    """Add the filters to the loggers of uvicorn and asyncio; idempotent."""
    for name, kind in (("uvicorn.error", ClientMistakes), ("asyncio", AcceptFailures), ("asyncio", LostClients)):
        logger = logging.getLogger(name)
        if not any(isinstance(known, kind) for known in logger.filters):
            logger.addFilter(kind())


def raise_open_files() -> None:
    """Raise this process's limit of open files to the hard limit: each connection of a server needs a file."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class ClientMistakes(logging.Filter):
    """Hides keys in headers, the query of every logged URL, and tracebacks of text that is not UTF-8."""

    def filter(self, record: logging.LogRecord) -> bool:
        match record.args:
            case (str() as header, str()) if header.lower() in _SECRET_HEADERS:
                record.args = (header, SECRET_MASK)
            case tuple() as values:
                record.args = tuple(_without_query(value) for value in values)
        if record.exc_info is not None and isinstance(record.exc_info[1], UnicodeDecodeError):
            record.exc_info = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


class AcceptFailures(logging.Filter):
    """Limits to one line per `_QUIET_S` the message that no connection is accepted for lack of open files."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._logged_at: float | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.getMessage().startswith(_NO_MORE):
            return True
        now = self._clock()
        if self._logged_at is not None and now - self._logged_at < _QUIET_S:
            return False
        self._logged_at = now
        reason = record.exc_info[1] if record.exc_info is not None else "no more resources"
        record.msg, record.args, record.exc_info = "Connections wait to be accepted: %s.", (str(reason),), None
        return True


class LostClients(logging.Filter):
    """Drops the message that asyncio logs for each write to a client that has left, until its end is noticed."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.getMessage() != _HAS_LEFT


def _without_query(value: object) -> object:
    """Mask the query of a URL path (a text that begins with a slash): clients may put anything there."""
    if not isinstance(value, str) or not value.startswith("/") or "?" not in value:
        return value
    return f"{value.partition('?')[0]}?{SECRET_MASK}"
