"""What the gateway answers when something is wrong: the one table from class of error to status, and its body.

VlmHyperBenchError
├── Unavailable
│   ├── LoadFailed            the engine did not get ready; everything is as it was before
│   └── EngineFailed          the engine answered nonsense, or not at all
└── NotReady
    └── Busy                  as many requests are in flight as are allowed
"""

from __future__ import annotations

from vlmhyperbench.errors import (
    Conflict,
    Denied,
    InvalidInput,
    NotFound,
    NotReady,
    OutOfMemory,
    PluginFailure,
    Unavailable,
    VlmHyperBenchError,
)
from vlmhyperbench.logs import process_masker


class LoadFailed(Unavailable):
    """The engine did not get ready; its environment is rolled back, another load may follow."""

    code = "load_failed"


class EngineFailed(Unavailable):
    """The engine does not answer, or not in HTTP."""

    code = "engine_failed"


class Busy(NotReady):
    """As many requests are in flight as are allowed; repeating later helps."""

    code = "busy"


class TooLarge(InvalidInput):
    """The body exceeds the limit."""

    code = "too_large"


_STATUS: tuple[tuple[type[VlmHyperBenchError], int], ...] = (
    (TooLarge, 413),
    (InvalidInput, 400),
    (Denied, 401),
    (NotFound, 404),
    (Busy, 429),
    (NotReady, 409),
    (Conflict, 409),
    (OutOfMemory, 507),
    (Unavailable, 502),
    (PluginFailure, 500),
    (VlmHyperBenchError, 500),
)


def status_of(error: VlmHyperBenchError) -> int:
    """Name the HTTP status of an error: the most specific class wins."""
    return next(status for kind, status in _STATUS if isinstance(error, kind))


def body_of(error: VlmHyperBenchError) -> dict[str, dict[str, str]]:
    """Write an error as OpenAI's clients read it, secrets masked."""
    message = process_masker.mask(str(error))
    return {"error": {"message": message, "type": error.code, "code": error.code}}
