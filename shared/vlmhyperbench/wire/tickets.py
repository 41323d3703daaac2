"""Response body of a browser ticket."""

from __future__ import annotations

from datetime import datetime

from vlmhyperbench.wire.base import Output


class BrowserTicket(Output):
    """A one-time URL that opens the stack's web page in one browser."""

    path: str
    """Path and query, to be appended to the API's base URL."""
    expires_at: datetime
