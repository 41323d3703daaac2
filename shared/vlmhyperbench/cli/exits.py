"""Exit codes, and which error leads to which."""

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
"""Usage, or an invalid configuration."""
SETUP = 3
"""Target unreachable, model or data set missing, no stack, not enough room."""
RUN_FAILED = 4
"""The run failed, was cancelled, or had more errors than it may."""
GATE = 5
"""A gate's policy is not met."""
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
    """SIGTERM arrived: everything ends as for Ctrl-C, with another exit code."""


def code_of(error: VlmHyperBenchError) -> int:
    """Return the exit code of an error; the nearest class decides."""
    return next(_CODE_OF[cls] for cls in type(error).__mro__ if cls in _CODE_OF)


def code_of_interrupt(error: KeyboardInterrupt) -> int:
    """Return the exit code of Ctrl-C or SIGTERM."""
    return TERMINATED if isinstance(error, Terminated) else INTERRUPTED
