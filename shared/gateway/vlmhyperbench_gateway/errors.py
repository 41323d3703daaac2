"""The gateway's errors: one table from their classes to HTTP statuses, and the body of an answer.

VlmHyperBenchError
├── Unavailable
│   ├── LoadFailed            the engine did not become ready; nothing is left of the attempt
│   └── EngineFailed          the engine does not answer, or not by the protocol
├── NotReady
│   └── Busy                  the maximum of requests is in flight
└── ClientLeft                the client has closed its connection before its answer was whole
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

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
from vlmhyperbench.logs import SecretMasker, process_masker

LOAD_LONGER: Final = "Raise load_timeout_s, or read the engine's log."


class LoadFailed(Unavailable):
    """The engine did not become ready; nothing is left of the attempt, and another load may follow."""

    code = "load_failed"


class EngineFailed(Unavailable):
    """The engine does not answer, or not in HTTP."""

    code = "engine_failed"


class Busy(NotReady):
    """The maximum of requests is in flight; the request may be repeated later."""

    code = "busy"


class ClientLeft(VlmHyperBenchError):
    """The client has closed its connection before its answer was whole; nobody reads this error."""

    code = "client_left"


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
    (ClientLeft, 499),
    (VlmHyperBenchError, 500),
)


def status_of(error: VlmHyperBenchError) -> int:
    """Return the HTTP status of an error, that of its most specific class."""
    return next(status for kind, status in _STATUS if isinstance(error, kind))


def body_of(error: VlmHyperBenchError) -> dict[str, dict[str, str]]:
    """Return an error in the form of OpenAI's API, with secrets masked."""
    message = process_masker.mask(str(error))
    return {"error": {"message": message, "type": error.code, "code": error.code}}


def without_secrets(error: VlmHyperBenchError, secrets: Iterable[str]) -> VlmHyperBenchError:
    """Return the same error with these values masked in its texts, for an error of code that was given them."""
    masker = SecretMasker(secrets)
    error.message, error.cure = masker.mask(error.message), masker.mask(error.cure)
    error.args = (error.message,)
    return error
