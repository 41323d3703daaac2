"""How a claim of a job ended: what a handler returns or raises, and what the finishing transaction writes."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from vlmhyperbench.errors import (
    Conflict,
    Denied,
    Fenced,
    InvalidInput,
    NotFound,
    NotReady,
    PluginFailure,
    TargetRefused,
    Unavailable,
    VlmHyperBenchError,
)
from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """Everything of the job is done: for a shard, every ordinal of its range has its row."""

    data: JsonObject = field(default_factory=dict)
    """What the next stage needs to know; stored in the job's outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The run's stop rule said that enough is known; which one, and where, is written on the run."""


STORAGE_FULL = "storage_full"
"""Reason of a preemption that raises an alert and waits a while: the disk is not free again at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempted:
    """The worker had to let go (drain, pause, a full disk); the job goes back and nothing is charged."""

    reason: str = "drain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """It did not work. What is not permanent is tried again after a pause, within the job's budget."""

    code: str
    message: str
    permanent: bool = False
    error: JsonObject | None = None
    """What a server said, as `RequestError` of the API has it, where no row of the run says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """The run was cancelled and the claim has seen it."""


Outcome: TypeAlias = Complete | Stopped | Preempted | Failed
"""What a handler returns. A cancelled claim may return any of them: its runner writes `Cancelled`."""


IS_FINAL: Final[Mapping[type[VlmHyperBenchError], bool]] = {
    InvalidInput: True,
    NotFound: True,
    Conflict: True,
    Denied: True,
    PluginFailure: True,
    NotReady: False,
    Unavailable: False,
    VlmHyperBenchError: False,
}
"""Whether an error fails a job for good, by the nearest class; what is not final is tried again within the budget."""

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


def outcome_of(error: BaseException) -> Preempted | Failed | None:
    """Say what an error that left a handler means for its job: the one table for every handler of every worker.

    Returns:
        None where the claim is lost and nothing may be written; `Preempted` where the disk is full; else `Failed`,
        which is final as `IS_FINAL` says. Whatever was not raised on purpose is a crash, and is tried again.
    """
    cause = cause_of(error)
    if isinstance(cause, Fenced):
        return None
    if isinstance(cause, OSError) and cause.errno in _NO_SPACE:
        return Preempted(reason=STORAGE_FULL)
    if not isinstance(cause, VlmHyperBenchError):
        return Failed(code="crash", message=f"{type(cause).__name__}: {cause}")
    if cause.code == STORAGE_FULL:
        return Preempted(reason=STORAGE_FULL)
    return Failed(
        code=cause.code,
        message=str(cause),
        permanent=next(IS_FINAL[kind] for kind in type(cause).__mro__ if kind in IS_FINAL),
        error=cause.answer if isinstance(cause, TargetRefused) else None,
    )


def cause_of(error: BaseException) -> BaseException:
    """Return what a group of errors is about: a lost claim before all else, then what was raised on purpose."""
    inner = getattr(error, "exceptions", None)  # of a group of errors
    leaves = [cause_of(leaf) for leaf in inner] if isinstance(inner, tuple) else [error]
    return min(leaves, key=lambda leaf: (not isinstance(leaf, Fenced), not isinstance(leaf, VlmHyperBenchError)))
