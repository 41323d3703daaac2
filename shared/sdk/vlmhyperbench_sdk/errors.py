"""The root of the error tree: every error the product raises on purpose descends from here.

    VlmHyperBenchError            code, message, cure
    ├── InvalidInput              the caller's data is wrong; repeating it cannot help
    ├── NotFound                  a name or id that does not exist
    ├── NotReady                  right request, wrong moment (no model loaded, still starting)
    ├── Conflict                  the state of the thing forbids it
    ├── Unavailable               a part that is needed does not answer; repeating may help
    └── PluginFailure             code of a plugin broke its contract

Errors do not know HTTP: the API owns one table from class to status.
"""

from __future__ import annotations


class VlmHyperBenchError(Exception):
    """Say what is wrong, where, and how to cure it.

    `code` is stable API; `message` names the thing and the place; `cure` is one imperative sentence or empty.
    """

    code = "error"

    def __init__(self, message: str, *, cure: str = "", code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.message} {self.cure}".rstrip()


class InvalidInput(VlmHyperBenchError):
    """The caller's data is wrong; repeating it unchanged cannot help."""

    code = "invalid_input"


class NotFound(VlmHyperBenchError):
    """A name or id that does not exist (or that the caller may not know of)."""

    code = "not_found"


class NotReady(VlmHyperBenchError):
    """The request is right, the moment is not."""

    code = "not_ready"


class Conflict(VlmHyperBenchError):
    """The state of the thing forbids what was asked."""

    code = "conflict"


class Unavailable(VlmHyperBenchError):
    """A part that is needed does not answer; repeating later may help."""

    code = "unavailable"


class PluginFailure(VlmHyperBenchError):
    """Code of a plugin broke its contract."""

    code = "plugin_failure"
