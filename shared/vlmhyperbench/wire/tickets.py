"""Response bodies of browser tickets and sessions."""

from __future__ import annotations

from datetime import datetime

from vlmhyperbench.wire.base import Output


class BrowserTicket(Output):
    """A one-time URL that opens the dashboard in one browser."""

    path: str
    """Path and query, to be appended to the API's base URL."""
    expires_at: datetime


class BrowserSession(Output):
    """Who asks, and what the request's key, or its cookie and token, may do."""

    principal: str
    project_id: str
    scopes: list[str]
    """What the request may do; `*` stands for everything."""
    can_write: bool
    """False: the request has a session's cookie without the token of its page, so that it may only read."""
    expires_at: datetime | None
    """End of the browser's session; null for a key."""
