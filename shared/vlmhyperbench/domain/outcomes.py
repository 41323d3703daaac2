"""Outcomes of a claim: what a handler returns, what an error that it raises means, and what is written at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from vlmhyperbench.errors import (
    STORAGE_FULL,
    Conflict,
    Denied,
    DoesNotFit,
    Fenced,
    InvalidInput,
    NotFound,
    NotReady,
    PluginFailure,
    TargetRefused,
    Unavailable,
    VlmHyperBenchError,
    is_disk_full,
)
from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """The job is done; in a shard, every ordinal of its range has a row."""

    data: JsonObject = field(default_factory=dict)
    """Information for the next stage, stored in the job's outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The run's stop rule has decided; the decision is stored with the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempted:
    """The worker had to release the job (drain, pause, full disk); it becomes READY, without counting a failure."""

    reason: str = "drain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The job failed. Unless the failure is permanent, it is tried again after a pause, within the job's budget."""

    code: str
    message: str
    permanent: bool = False
    error: JsonObject | None = None
    """A server's error in the form of the API's `RequestError`, if no row of the run has it."""
    shortage: JsonObject | None = None
    """Need, have and shortfall of memory, and what would change it, where a model did not fit."""
    is_charged: bool = True
    """Whether it counts against the job's budget; not where a device has failed, which raises an alert instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """The run was cancelled, and the claim ended because of it."""


Outcome: TypeAlias = Complete | Stopped | Preempted | Failed
"""What a handler returns. After a cancellation it may return any of them; the claim runner writes `Cancelled`."""


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
"""Whether an error fails a job permanently, by its nearest class; others are tried again within the job's budget."""


def outcome_of(error: BaseException) -> Preempted | Failed | None:
    """Return what an error of a handler means for its job; the only such mapping, for all handlers of all workers.

    Returns:
        None if the claim is lost, so that nothing may be written; `Preempted` if the disk is full; else `Failed`, which
        is permanent by `IS_FINAL`. An error outside the project's error tree is a crash, which is tried again.
    """
    cause = cause_of(error)
    if isinstance(cause, Fenced):
        return None
    if isinstance(cause, OSError) and is_disk_full(cause):
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
        shortage=cause.facts if isinstance(cause, DoesNotFit) else None,
    )


def cause_of(error: BaseException) -> BaseException:
    """Return the decisive error of an exception group: a lost claim first, then an error of the project's tree."""
    inner = getattr(error, "exceptions", None)  # only an exception group has it
    leaves = [cause_of(leaf) for leaf in inner] if isinstance(inner, tuple) else [error]
    return min(leaves, key=lambda leaf: (not isinstance(leaf, Fenced), not isinstance(leaf, VlmHyperBenchError)))
