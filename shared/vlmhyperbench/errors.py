"""The tree of errors that all rooms of the shared library raise: the SDK's classes, and those of the platform.

VlmHyperBenchError            code, message, cure
├── InvalidInput              the caller's data is wrong; repeating it cannot help
│   ├── TargetRefused         the measured endpoint refuses every request of a run
│   └── DoesNotFit            models need more memory than there is, whatever is given up
├── NotFound                  a name or id that does not exist
├── NotReady                  right request, wrong moment (no model loaded, still starting)
├── Conflict                  the current state does not allow it
│   ├── Fenced                the claim was lost: stop, write nothing
│   └── Damaged               a stored file is missing or differs from the committed one
├── Unavailable               a needed part does not answer; repeating may help
│   └── OutOfMemory           the memory is too small; a smaller request may fit
├── Denied                    no key, a wrong key, or a key without the scope
└── PluginFailure             code of a plugin broke its contract
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any, Final

from vlmhyperbench_sdk.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    NotReady,
    PluginFailure,
    Unavailable,
    VlmHyperBenchError,
)
from vlmhyperbench_sdk.types import JsonObject

__all__ = [
    "STORAGE_FULL",
    "Conflict",
    "Damaged",
    "Denied",
    "DoesNotFit",
    "Fenced",
    "InvalidInput",
    "NotFound",
    "NotReady",
    "OutOfMemory",
    "PluginFailure",
    "TargetRefused",
    "Unavailable",
    "VlmHyperBenchError",
    "is_disk_full",
    "pydantic_message",
]

STORAGE_FULL: Final = "storage_full"
"""Code of an error, and reason of a preemption, because of a full disk: raises an alert, and the job pauses before the
next try."""

_PREFIX = "Value error, "
"""What Pydantic writes before the message of an error that a validator of ours raises."""


class Denied(VlmHyperBenchError):
    """No key, a wrong key, or a key without the scope; the response does not distinguish the first two."""

    code = "denied"


class TargetRefused(InvalidInput):
    """A target refuses every request of a run for the same reason; repeating cannot help."""

    code = "endpoint_refused"

    def __init__(self, message: str, *, cure: str, code: str, answer: JsonObject | None = None) -> None:
        """`answer` is the server's answer as a `RequestError` of the API; None if rows of the run contain it."""
        super().__init__(message, cure=cure, code=code)
        self.answer = answer


class DoesNotFit(InvalidInput):
    """Models need more memory than there is, whatever is given up."""

    code = "does_not_fit"

    def __init__(self, message: str, *, cure: str, facts: JsonObject) -> None:
        """`facts` are need, have and shortfall of each memory, and the knobs that would change it."""
        super().__init__(message, cure=cure)
        self.facts = facts


class Fenced(Conflict):
    """The claim was lost to another worker: end the work and write nothing."""

    code = "fenced"


class Damaged(Conflict):
    """A stored file is missing, or its content differs from the committed one."""

    code = "storage_corrupt"

    def __init__(self, key: str, *, expected: str, found: str | None) -> None:
        """Describe the file.

        Args:
            key: Key of the file in the storage.
            expected: Committed SHA-256.
            found: SHA-256 of the stored content; None if there is no file.
        """
        state = "is missing" if found is None else f"has the SHA-256 {found}"
        super().__init__(
            f"{key} {state} in storage; a file with the SHA-256 {expected} was committed.",
            cure="Restore it from a backup; without a backup, delete the file and repeat the run that wrote it.",
        )
        self.key = key
        self.expected = expected
        self.found = found


class OutOfMemory(Unavailable):
    """The memory is too small; a smaller request may fit."""

    code = "oom"


def is_disk_full(error: OSError) -> bool:
    """Return whether the operating system refuses to write because the disk, or the user's part of it, is full."""
    return error.errno in {errno.ENOSPC, errno.EDQUOT}


def pydantic_message(details: Mapping[str, Any]) -> str:
    """Return the message of an error of Pydantic, without its prefix to the messages of our own validators."""
    return str(details["msg"]).removeprefix(_PREFIX)
