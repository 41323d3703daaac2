"""Exit codes of the commands, and the code of each class of errors."""

from __future__ import annotations

from vlmhyperbench.errors import (
    Conflict,
    Denied,
    InvalidInput,
    NotFound,
    NotReady,
    Unavailable,
    VlmHyperBenchError,
)

OK = 0
UNEXPECTED = 1
USAGE = 2
"""Wrong arguments, or an invalid file or setting."""
SETUP = 3
"""A part that is needed is missing or unreachable: stack, target, library, disk space."""
RUN_FAILED = 4
"""The run failed, was cancelled, or had too many errors."""
GATE = 5
"""A gate policy is not met, or no rate keeps the limits of a search."""
INTERRUPTED = 130
TERMINATED = 143

_CODE_OF: dict[type[VlmHyperBenchError], int] = {
    InvalidInput: USAGE,
    NotFound: USAGE,
    Conflict: SETUP,
    NotReady: SETUP,
    Unavailable: SETUP,
    Denied: SETUP,
    VlmHyperBenchError: UNEXPECTED,
}


class Terminated(KeyboardInterrupt):
    """SIGTERM: handled as Ctrl-C, with another exit code."""


def code_of(error: VlmHyperBenchError) -> int:
    """Return the exit code of an error; the nearest class decides."""
    return next(_CODE_OF[cls] for cls in type(error).__mro__ if cls in _CODE_OF)


def code_of_interrupt(error: KeyboardInterrupt) -> int:
    """Return the exit code of Ctrl-C or SIGTERM."""
    return TERMINATED if isinstance(error, Terminated) else INTERRUPTED
