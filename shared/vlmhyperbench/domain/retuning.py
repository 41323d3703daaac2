"""Which runs may be retuned: the requests in flight of a closed loop may change, those of a timed phase may not."""

from __future__ import annotations

from collections.abc import Collection

from vlmhyperbench.domain.specs import ImportTarget, RunSpec
from vlmhyperbench.domain.states import JobState, RunState
from vlmhyperbench_sdk.errors import Conflict

MAX_IN_FLIGHT = 4096
"""As that of a scenario."""


def why_not_retunable(spec: RunSpec, state: RunState, asking: Collection[JobState]) -> Conflict | None:
    """Return why the requests in flight may not change: a measurement would be mixed, or there is nothing to change.

    Args:
        spec: The run's spec.
        state: The run's state.
        asking: States of its jobs that ask the target; empty before they are planned.

    Returns:
        None if they may change; `timed_phase`: the scenario is a measurement at its concurrency; `nothing_in_flight`:
        the run sends no requests, or no more.
    """
    scenario = spec.scenario
    if scenario.is_timed:
        return Conflict(
            f"The scenario {scenario.name} is timed ({scenario.kind}): its times are those of the concurrency that it "
            "states, so it cannot change while it runs.",
            cure="Cancel the run, and submit it with another in_flight of its scenario.",
            code="timed_phase",
        )
    is_planned = state not in (RunState.QUEUED, RunState.INDEXED)
    is_over = state.is_terminal or (is_planned and all(job.is_terminal for job in asking))
    if is_over or isinstance(spec.target, ImportTarget):
        return Conflict(
            "The run has no requests in flight, and sends no more.",
            cure="Submit it anew with another in_flight of its scenario.",
            code="nothing_in_flight",
        )
    return None
