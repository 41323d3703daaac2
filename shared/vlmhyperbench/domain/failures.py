"""Whose fault a failed request is: the model's, which counts against it, or the infrastructure's, which never does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Failure = Literal["model", "infrastructure"]

LOST_CONNECTION = frozenset({"connect_failed", "connection_lost", "incomplete_stream"})
"""Codes of requests that no engine has answered to the end: it may be gone."""

UNREADABLE_SAMPLE = "unreadable_sample"
"""Code of a sample that cannot be asked: nothing was sent."""

_INFRASTRUCTURE_STATUS = frozenset({401, 403, 404, 405, 407, 408, 409, 421, 425, 429})
"""4xx answers that say nothing about the model: a wrong key or address, a server that is busy or not ready."""

_MODEL_CODES = frozenset({"timeout", "answer_too_large"})
"""The model talked for too long, or too much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRequest:
    """A classified failure; `code` is the load generator's."""

    failure: Failure
    code: str


def classify(*, status: str, http_status: int | None, error: str | None) -> FailedRequest | None:
    """Classify the record of one request; None when it is `ok`.

    Args:
        status: `ok`, `error` or `timeout`, as the load record says.
        http_status: of the answer, None when there was none.
        error: `code: message` of the load record.
    """
    if status == "ok":
        return None
    code = "timeout" if status == "timeout" else (error or "").partition(":")[0] or "unknown"
    is_refusal = http_status is not None and 400 <= http_status < 500 and http_status not in _INFRASTRUCTURE_STATUS
    return FailedRequest(failure="model" if code in _MODEL_CODES or is_refusal else "infrastructure", code=code)
