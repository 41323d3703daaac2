"""The tree of errors that every room of the shared library raises: the SDK's classes, and what only the platform knows.

VlmHyperBenchError            code, message, cure
├── InvalidInput              the caller's data is wrong; repeating it cannot help
│   └── TargetRefused         the measured endpoint refuses what a run asks of everybody
├── NotFound                  a name or id that does not exist
├── NotReady                  right request, wrong moment (no model loaded, still starting)
├── Conflict                  the state of the thing forbids it
│   ├── Fenced                the claim is no longer ours: stop, write nothing
│   └── Damaged               a stored file is missing, or is not the one that was committed
├── Unavailable               a part that is needed does not answer; repeating may help
│   └── OutOfMemory           it cannot run in the memory there is; a smaller request may
├── Denied                    no key, a wrong key, or a key without the scope
└── PluginFailure             code of a plugin broke its contract
"""

from __future__ import annotations

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
    "Conflict",
    "Damaged",
    "Denied",
    "Fenced",
    "InvalidInput",
    "NotFound",
    "NotReady",
    "OutOfMemory",
    "PluginFailure",
    "TargetRefused",
    "Unavailable",
    "VlmHyperBenchError",
]


class Denied(VlmHyperBenchError):
    """No key, a wrong key, or a key without the scope; the answer never says which of the first two."""

    code = "denied"


class TargetRefused(InvalidInput):
    """A target refuses the requests of a run whatever their prompt is; asking again cannot help."""

    code = "endpoint_refused"

    def __init__(self, message: str, *, cure: str, code: str, answer: JsonObject | None = None) -> None:
        """`answer` is what its server said, as `RequestError` of the API has it; None where rows of the run say it."""
        super().__init__(message, cure=cure, code=code)
        self.answer = answer


class Fenced(Conflict):
    """The claim is no longer ours: end the work and write nothing."""

    code = "fenced"


class Damaged(Conflict):
    """A stored file is missing, or its content is not what was committed: cut short, changed, or of another file."""

    code = "storage_corrupt"

    def __init__(self, key: str, *, expected: str, found: str | None) -> None:
        """Say which file it is.

        Args:
            key: where it is stored.
            expected: SHA-256 that was committed.
            found: SHA-256 of what is there, or None where there is nothing.
        """
        state = "is missing" if found is None else f"has the SHA-256 {found}"
        super().__init__(
            f"{key} {state} in storage; a file with the SHA-256 {expected} was committed.",
            cure="Restore it from a backup; without one, delete what is left and repeat the run that made it.",
        )
        self.key = key
        self.expected = expected
        self.found = found


class OutOfMemory(Unavailable):
    """It does not fit into the memory there is; a smaller request may."""

    code = "oom"
