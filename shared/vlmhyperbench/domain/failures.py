"""Codes of failed requests; `domain.causes` determines why a request failed."""

from __future__ import annotations

from typing import Literal

Failure = Literal["model", "infrastructure"]
"""What a failed request counts against: `model` counts against the model by policy, `infrastructure` never does."""

LOST_CONNECTION = frozenset({"connect_failed", "connection_lost", "incomplete_stream"})
"""Codes of requests whose connection failed before the answer was complete; the engine may have ended."""

UNREADABLE_SAMPLE = "unreadable_sample"
"""Code of a sample that cannot be read, so that no request was sent."""

NOT_ASKED = "not_asked"
"""Code of a request that was not made, since the answers of which it is made are missing: no failure of anything."""

NOT_SENT = frozenset({UNREADABLE_SAMPLE, NOT_ASKED})
"""Codes of rows for which no request was sent."""
