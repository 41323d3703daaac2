"""The root of the error tree: every error the product raises on purpose descends from here.

    VlmHyperBenchError            code, message, cure
    ├── InvalidInput              the caller's data is wrong; retrying unchanged cannot help
    ├── NotFound                  a name or id that does not exist
    ├── NotReady                  valid request at the wrong time (no model loaded, still starting)
    ├── Conflict                  the state of the resource does not allow it
    ├── Unavailable               a required part does not respond; retrying may help
    └── PluginFailure             code of a plugin violated its contract

Errors are independent of HTTP: the API maps classes to statuses in one table.
"""

from __future__ import annotations


class VlmHyperBenchError(Exception):
    """An error of the product: what is wrong, where, and how to fix it.

    `code` is stable API; `message` names the subject and the location; `cure` is one imperative sentence or empty.
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
    """The caller's data is wrong; retrying it unchanged cannot help."""

    code = "invalid_input"


class NotFound(VlmHyperBenchError):
    """A name or id that does not exist, or that the caller has no access to."""

    code = "not_found"


class NotReady(VlmHyperBenchError):
    """The request is valid, but cannot be served yet or any more."""

    code = "not_ready"


class Conflict(VlmHyperBenchError):
    """The state of the resource does not allow the request."""

    code = "conflict"


class Unavailable(VlmHyperBenchError):
    """A required part does not respond; retrying later may help."""

    code = "unavailable"


class PluginFailure(VlmHyperBenchError):
    """Code of a plugin violated its contract."""

    code = "plugin_failure"
