"""In which order targets are used again, by the jobs that are due and the plan of the runs behind them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vlmhyperbench.domain.graph import Step, steps_of
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench_sdk.types import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """A run that has not ended."""

    spec: RunSpec
    begun: Sequence[tuple[StepKind, JsonObject]]
    """Kind and parameters of each job that it has or had."""


def next_uses(due: Sequence[str], plan: Iterable[OpenRun]) -> list[str]:
    """Return digests of targets in the order of their next use, each once.

    Args:
        due: Targets of jobs that may start now, the most urgent first.
        plan: Runs whose later steps have no jobs yet, in the order in which they are worked on.
    """
    order = dict.fromkeys(due)
    for run in plan:
        for step in steps_of(run.spec):
            if STEPS[step.kind].asks is not None and not _has_begun(step, run):
                order.setdefault(step.target_digest or run.spec.target_digest)
    return list(order)


def _has_begun(step: Step, run: OpenRun) -> bool:
    return any(kind is step.kind and step.params.items() <= params.items() for kind, params in run.begun)
