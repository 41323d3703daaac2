"""The body of every refusal: problem+json (RFC 9457) with a stable code, a message and a cure."""

from __future__ import annotations

from pydantic import Field

from vlmhyperbench.wire.base import Output


class ProblemItem(Output):
    """One of several things that are wrong."""

    message: str
    field: str | None = None
    """Where in the body or entry, dotted: `run.target.model`."""
    file: str | None = None
    line: int | None = None
    cure: str = ""


class Problem(Output):
    """What is wrong, where, and how to cure it."""

    type: str = "about:blank"
    title: str
    status: int
    code: str
    """Stable: clients branch on it."""
    message: str
    cure: str = ""
    errors: list[ProblemItem] = Field(default_factory=list)
