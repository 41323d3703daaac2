"""Words for requests that failed; why one did, and whom that is held against, says `domain.causes`."""

from __future__ import annotations

from typing import Literal

Failure = Literal["model", "infrastructure"]
"""What scoring knows of a failed request: `model` counts against the model by policy, `infrastructure` never does."""

LOST_CONNECTION = frozenset({"connect_failed", "connection_lost", "incomplete_stream"})
"""Codes of requests that no engine has answered to the end: it may be gone."""

UNREADABLE_SAMPLE = "unreadable_sample"
"""Code of a sample that cannot be asked: nothing was sent."""
