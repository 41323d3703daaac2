"""A ticket for a browser."""

from __future__ import annotations

from datetime import datetime

from vlmhyperbench.wire.base import Output


class BrowserTicket(Output):
    """An address that opens the stack's page in one browser, once."""

    path: str
    """Path and query, to be put behind the API's address."""
    expires_at: datetime
