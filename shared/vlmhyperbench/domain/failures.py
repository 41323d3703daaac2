"""Whose fault a failed request is: the model's, which counts against it, or the infrastructure's, which never does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Failure = Literal["model", "infrastructure"]

_INFRASTRUCTURE_STATUS = frozenset({401, 403, 404, 405, 407, 408, 409, 421, 425, 429})
"""4xx answers that say nothing about the model: a wrong key or address, a server that is busy or not ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRequest:
    """A classified failure."""

    failure: Failure
    code: str


def classify(*, status: str, http_status: int | None) -> FailedRequest | None:
    """Classify the record of one request; None when it is `ok`.

    Args:
        status: `ok`, `error` or `timeout`, as the load record says.
        http_status: of the answer, None when there was none.
    """
    match status, http_status:
        case "ok", _:
            return None
        case "timeout", _:
            return FailedRequest(failure="model", code="timeout")
        case _, None:
            return FailedRequest(failure="infrastructure", code="connection")
        case _, code if code in _INFRASTRUCTURE_STATUS or code >= 500:
            return FailedRequest(failure="infrastructure", code=f"http_{code}")
        case _, code if code >= 400:
            return FailedRequest(failure="model", code=f"http_{code}")
        case _:
            return FailedRequest(failure="infrastructure", code="broken_answer")
