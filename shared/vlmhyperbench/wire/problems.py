"""Body of every error response: problem+json (RFC 9457) with a stable code, a message and a cure."""

from __future__ import annotations

from pydantic import Field

from vlmhyperbench.wire.base import Output


class ProblemItem(Output):
    """One of several errors in a request."""

    message: str
    field: str | None = None
    """Dotted path in the body or registry entry: `run.target.model`."""
    file: str | None = None
    line: int | None = None
    cure: str = ""


class Problem(Output):
    """An error: what is wrong, where, and how to fix it."""

    type: str = "about:blank"
    title: str
    status: int
    code: str
    """Stable identifier of the error for clients to branch on."""
    message: str
    cure: str = ""
    errors: list[ProblemItem] = Field(default_factory=list)
