"""How a claim of a job ended: what a handler returns and what the finishing transaction writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from vlmhyperbench.errors import Conflict, InvalidInput, NotFound, PluginFailure, VlmHyperBenchError
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
"""What a handler returns. A cancelled claim may return any of them: the supervisor writes `Cancelled`."""


def outcome_of(error: VlmHyperBenchError) -> Preempted | Failed:
    """Say how an error ends a handler: given back where the disk is full, else failed; for good if trying is no use."""
    if error.code == STORAGE_FULL:
        return Preempted(reason=STORAGE_FULL)
    is_permanent = isinstance(error, (InvalidInput, NotFound, Conflict, PluginFailure))
    return Failed(code=error.code, message=str(error), permanent=is_permanent)
