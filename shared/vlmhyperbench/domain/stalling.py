"""The stall limit of a shard: the maximum time between two commits that its own requests can explain. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from vlmhyperbench.domain.asking import asked_spec
from vlmhyperbench.domain.scenarios import ArrivalSpec
from vlmhyperbench.domain.schedules import instants_of
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.domain.steps import StepKind
from vlmhyperbench.domain.units import NS_PER_S
from vlmhyperbench_sdk.types import JsonValue

MAX_DELAY_S: Final = 60.0
"""Maximum delay between two tries, which the load generator grants a server's Retry-After; its own are shorter."""
_SLACK: Final = 1.1
"""Factor for the time in which answers are sealed, stored and committed."""


def stall_limit_s(spec: RunSpec, kind: StepKind, params: Mapping[str, JsonValue], *, requests: int) -> float:
    """Return the maximum time in seconds between two commits of a job that sends requests.

    Each request may use all its tries, each up to the run's timeout. It may also be sent only after a pause: the time
    between two questions of a conversation, or the largest gap between two arrivals.

    Args:
        spec: spec of the run.
        kind: kind of the job's step.
        params: parameters of the job.
        requests: maximum number of requests of the job.

    Raises:
        LookupError: the run has no such judge.
        InvalidInput: the schedule cannot be drawn.
    """
    spec = asked_spec(spec, kind, params)
    limits, scenario = spec.limits, spec.scenario
    tries = 1 if scenario.is_timed else limits.tries
    asking_s = tries * limits.request_timeout_s + (tries - 1) * MAX_DELAY_S
    arriving = -(-requests // scenario.turns)
    gap_s = _largest_gap_s(scenario.arrivals, arriving, scenario.seed) if scenario.arrivals else 0.0
    return _SLACK * (asking_s + max(scenario.think_s, gap_s))


def _largest_gap_s(spec: ArrivalSpec, requests: int, seed: int) -> float:
    """Return the largest gap of a schedule, including that before its first arrival; more arrivals never reduce it."""
    instants = instants_of(spec, count=requests, seed=seed)
    return float(np.diff(instants, prepend=0).max(initial=0)) / NS_PER_S
