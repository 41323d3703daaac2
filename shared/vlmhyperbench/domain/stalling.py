"""The stall limit of a shard: it may commit nothing for as long as its own requests may take. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from vlmhyperbench.domain.arrivals import Arrivals, draw_arrivals
from vlmhyperbench.domain.judging import asked_spec
from vlmhyperbench.domain.scenarios import ArrivalSpec
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.domain.units import NS_PER_S
from vlmhyperbench_sdk.types import JsonValue

LONGEST_DELAY_S: Final = 60.0
"""Between two tries: what the load generator grants a server's Retry-After; its own delays are shorter."""
_SLACK: Final = 1.1
"""What has ended is sealed, stored and committed a while later."""


def stall_limit_s(spec: RunSpec, kind: StepKind, params: Mapping[str, JsonValue], *, requests: int) -> float:
    """Return the longest time in seconds from one commit of a job that asks to the next, if all that is left hangs.

    Each request may use up its tries one after the other, each for as long as the run allows, and may be due only
    after a pause: the time to think between two questions, or the largest gap between two arrivals.

    Args:
        spec: of the run.
        kind: of the job's step.
        params: of the job.
        requests: at most so many are asked by the job.

    Raises:
        LookupError: the run has no such judge.
        InvalidInput: the schedule cannot be drawn.
    """
    spec = asked_spec(spec, kind, params)
    limits, scenario = spec.limits, spec.scenario
    tries = 1 if scenario.is_timed else limits.tries
    asking_s = tries * limits.request_timeout_s + (tries - 1) * LONGEST_DELAY_S
    gap_s = _largest_gap_s(scenario.arrivals, requests, scenario.seed) if scenario.arrivals else 0.0
    return _SLACK * (asking_s + max(scenario.think_s, gap_s))


def _largest_gap_s(spec: ArrivalSpec, requests: int, seed: int) -> float:
    """Return the largest gap of a schedule, which begins at 0; arrivals that nobody asks in the end only add to it."""
    instants = draw_arrivals(Arrivals(**spec.model_dump()), count=requests, seed=seed)
    return float(np.diff(instants, prepend=0).max(initial=0)) / NS_PER_S
