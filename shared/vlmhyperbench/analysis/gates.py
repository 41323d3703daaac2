"""Gates: a policy that a run must meet in comparison with a baseline, checked rule by rule.

`max_drop` is a test of non-inferiority. It passes where the whole 95 % interval of the paired difference is within the
margin, fails where the whole interval is beyond it, and is otherwise inconclusive: there are too few samples. Answers
without a value widen the interval by their worst and best possible values, so that they cannot help a run to pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from vlmhyperbench.analysis.comparison import Delta
from vlmhyperbench.analysis.costs import why_costs_differ_in_kind
from vlmhyperbench.analysis.gate_policy import (
    OF_METRICS,
    GatePolicy,
    MetricRule,
    ParityRule,
    ShareRule,
    SpeedRule,
)
from vlmhyperbench.analysis.parity import Parity
from vlmhyperbench.domain.identity import Measurement, differences, measured_apart

_UNKNOWN: JsonValue = {"unknown": True}
_UNKNOWN_OF_IMPORTS = frozenset({"prompt", "decoding", "scenario", "response_format"})
"""Parts of a spec that describe how answers were asked for; of imported answers they are unknown."""
_TAIL = 0.025
"""Probability of missing the true value at one end of a 95 % interval."""

Status = Literal["passed", "failed", "inconclusive"]
MEMORY = "peak_memory_bytes"
"""Peak memory is measured independently of the requests, so that late sends do not affect it."""
_MEMORY_OF = "peak_memory_of"

COSTS = frozenset({"cost_per_answer", "cost_per_million_tokens"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRun:
    """A metric over all answers of a run."""

    value: float | None
    """Value over the answers that have one."""
    lower: float | None
    """Smallest possible value over all values that the other answers could have; None where unknown."""
    upper: float | None
    """Largest possible value."""
    without: float
    """Number of requests that have a row, but no value."""
    lost: Mapping[str, float]
    """`unscored` and `invalid` → number of such answers; invalid ones may have a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Values of one run that gates read."""

    metrics: Mapping[str, WholeRun]
    headline: Mapping[str, JsonValue]
    counts: Mapping[str, float]
    spec: Mapping[str, JsonValue]
    measurement: Measurement
    is_interrupted: bool
    degraded: tuple[str, ...] = ()
    """What was given up of quality so that its models fit; empty where nothing was."""
    is_stopped: bool
    """Whether its stop rule ended it before every sample was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Result of one rule."""

    rule: str
    status: Status
    message: str


def check(
    policy: GatePolicy, *, baseline: Side, other: Side, deltas: Mapping[str, Delta], parity: Parity
) -> list[Check]:
    """Check every rule that is for the other run, in order; `deltas` maps names of metrics to paired differences."""
    checks: list[Check] = []
    for rule in policy.rules:
        if rule.runs is not None and other.headline.get("name") not in rule.runs:
            continue
        match rule:
            case MetricRule():
                checks += _metric(rule, deltas, baseline, other)
            case SpeedRule():
                checks.append(_speed(rule, baseline, other))
            case ShareRule():
                checks.append(_share(rule, other))
            case ParityRule():
                checks.append(_parity(rule, parity, baseline))
            case _:
                checks += [_same(part, baseline, other) for part in rule.same]
    return checks


def is_met(policy: GatePolicy, checks: list[Check]) -> bool:
    """Return whether a run passes."""
    failing = {"failed"} if policy.inconclusive == "pass" else {"failed", "inconclusive"}
    return not any(check.status in failing for check in checks)


def _metric(rule: MetricRule, deltas: Mapping[str, Delta], baseline: Side, other: Side) -> list[Check]:
    delta, measured = deltas.get(rule.metric), other.metrics.get(rule.metric)
    if measured is None:
        message = f"The run has no such metric; it has {', '.join(sorted(other.metrics)) or 'none'}."
        return [Check(rule=rule.metric, status="failed", message=message)]
    checks = []
    if rule.max_drop is not None:
        lost = 0 if delta is None else _without_pair(delta, baseline, other)
        checks.append(_drop(rule.metric, rule.max_drop, delta, lost=lost, shared=sorted(deltas)))
    if rule.min_value is not None:
        checks.append(_limit(f"{rule.metric} min_value", rule.min_value, measured, other, sign=1))
    if rule.max_value is not None:
        checks.append(_limit(f"{rule.metric} max_value", rule.max_value, measured, other, sign=-1))
    return checks


def _limit(rule: str, limit: float, measured: WholeRun, other: Side, *, sign: int) -> Check:
    """Check a value against its limit.

    The result is inconclusive where answers without a value could bring the value beyond the limit, or where it is
    unknown whether they could.
    """
    if measured.value is None:
        return Check(rule=rule, status="failed", message="The metric has no value.")
    message = f"The value is {measured.value:.4g}; the limit is {limit:g}."
    if sign * (measured.value - limit) < 0:
        return Check(rule=rule, status="failed", message=message)
    worst = measured.lower if sign == 1 else measured.upper
    without = measured.without + other.counts["missing"]
    if not without or (worst is not None and not other.counts["missing"] and sign * (worst - limit) >= 0):
        return Check(rule=rule, status="passed", message=message)
    message += f" {without:g} of {other.counts['requested']:g} requests have no value; "
    if worst is None:
        message += "how far they could change the metric's value is unknown."
    else:
        message += f"with the worst value for each that was asked, the metric's value would be {worst:.4g}."
    return Check(rule=rule, status="inconclusive", message=message)


def _without_pair(delta: Delta, baseline: Side, other: Side) -> int:
    """Count the answers that are missing from a difference, including those that neither run has.

    Answers that a stop rule did not ask for are not missing: it asks in random order.
    """
    requested, missing = (
        min(int(side.counts[name]) for side in (baseline, other)) for name in ("requested", "missing")
    )
    if baseline.is_stopped or other.is_stopped:
        return max(0, requested - delta.pairs)
    in_neither = max(0, min(missing, requested - delta.pairs - delta.lost))
    return delta.lost + in_neither


def _drop(metric: str, limit: float, delta: Delta | None, *, lost: int, shared: Sequence[str]) -> Check:
    rule = f"{metric} max_drop"
    if delta is None:
        message = f"The runs do not share the metric; they share {', '.join(shared) or 'none'}."
        return Check(rule=rule, status="failed", message=message)
    if delta.direction is None:
        message = "The metric declares no direction, so no change of it is a drop."
        return Check(rule=rule, status="inconclusive", message=message)
    if delta.difference is None:
        return Check(rule=rule, status="failed", message="No answers could be paired.")
    sign = -1 if delta.direction == "higher" else 1
    drop = sign * delta.difference
    low, high = _interval_of_drop(delta, drop, sign)
    change = f"{abs(drop):.4g} {'worse' if drop > 0 else 'better'}" if drop else "no difference"
    message = (
        f"{change} (95 % interval of the drop {low:.4g} to {high:.4g}, {delta.pairs} pairs); the limit is {limit:g}."
    )
    if lost:
        low, high = (_widen(delta, end, lost, side) for end, side in ((low, -1), (high, 1)))
        bounds = f"{low:.4g} to {high:.4g}" if delta.is_bounded else "any number"
        message += f" Answers without a pair: {lost}; with them, the drop could be {bounds}."
    status: Status = "passed" if high <= limit else "failed" if low > limit else "inconclusive"
    return Check(rule=rule, status=status, message=message)


def _interval_of_drop(delta: Delta, drop: float, sign: int) -> tuple[float, float]:
    """Return the 95 % interval of the drop.

    Where all documents differ by the same amount, a paired interval does not exist. Then an unseen share of all
    documents may differ by the whole scale: the largest share that a sample of this size misses with a probability of
    2.5 %.
    """
    if delta.low is not None and delta.high is not None:
        low, high = sorted((sign * delta.low, sign * delta.high))
        return low + 0.0, high + 0.0  # no -0
    half_width = (1 - _TAIL ** (1 / delta.units)) * delta.scale
    return drop - half_width, drop + half_width


def _widen(delta: Delta, end: float, lost: int, side: int) -> float:
    """Move one end of an interval by answers that differ by the whole scale."""
    largest = delta.scale if delta.is_bounded else math.inf
    return (delta.pairs * end + side * lost * largest) / (delta.pairs + lost)


def _speed(rule: SpeedRule, baseline: Side, other: Side) -> Check:
    before, after = (number_of(side.headline.get(rule.speed)) for side in (baseline, other))
    if rule.speed in COSTS and (why := why_costs_differ_in_kind(baseline.headline, other.headline)):
        return Check(rule=rule.speed, status="inconclusive", message=why)
    if baseline.is_interrupted or other.is_interrupted:
        return Check(
            rule=rule.speed, status="inconclusive", message="A run was interrupted, or only a part of it was timed."
        )
    if before is None or after is None:
        return Check(rule=rule.speed, status="inconclusive", message="The speed was not measured in both runs.")
    if rule.speed == MEMORY and (of := two_kinds_of_memory(baseline.headline, other.headline)):
        return Check(rule=rule.speed, status="inconclusive", message=of)
    if rule.speed != MEMORY and "invalid" in (baseline.headline.get("validity"), other.headline.get("validity")):
        message = "A run's speeds are INVALID as a measurement; its report says why."
        return Check(rule=rule.speed, status="inconclusive", message=message)
    differing = measured_apart(baseline.measurement, other.measurement)
    if differing:
        message = f"The speeds cannot be compared: the runs differ in {', '.join(differing)}."
        return Check(rule=rule.speed, status="inconclusive", message=message)
    if before == 0:
        message = f"The baseline's value is 0, so there is no relative change; the run's value is {after:.4g}."
        return Check(rule=rule.speed, status="inconclusive", message=message)
    change = after / before - 1
    is_over = rule.max_increase is not None and after > before * (1 + rule.max_increase)
    is_under = rule.max_decrease is not None and after < before * (1 - rule.max_decrease)
    message = f"{before:.4g} became {after:.4g} ({change:+.1%})."
    return Check(rule=rule.speed, status="failed" if is_over or is_under else "passed", message=message)


def two_kinds_of_memory(baseline: Mapping[str, object], other: Mapping[str, object]) -> str | None:
    """Return why the memory peaks of two headlines cannot be compared; None where they can, or one is unknown."""
    before, after = baseline.get(_MEMORY_OF), other.get(_MEMORY_OF)
    if before is None or after is None or before == after:
        return None
    return f"The memory peaks cannot be compared: one is of the {before}, the other of the {after}."


def _share(rule: ShareRule, other: Side) -> Check:
    if rule.share in OF_METRICS:
        return _share_of_metric(rule, other)
    if rule.share == "truncated" and other.counts.get("answered") and "truncation_rate" not in other.counts:
        message = "It is not known of every answer why it ended, so that more may have ended at the token limit."
        return Check(rule=f"share of {rule.share}", status="failed", message=message)
    return _checked_share(rule, f"share of {rule.share}", other.counts[rule.share], other.counts["requested"])


def _share_of_metric(rule: ShareRule, other: Side) -> Check:
    lost = {name: measured.lost[rule.share] for name, measured in other.metrics.items()}
    name = rule.metric or max(lost, key=lambda name: lost[name], default="")
    if name not in lost:
        message = f"The run has no such metric; it has {', '.join(sorted(lost)) or 'none'}."
        return Check(rule=f"share of {rule.share}", status="failed", message=message)
    return _checked_share(rule, f"share of {rule.share} by {name}", lost[name], other.counts["requested"])


def _checked_share(rule: ShareRule, name: str, count: float, requested: float) -> Check:
    share = count / requested if requested else 1.0
    message = f"{count:g} of {requested:g} requests ({share:.2%}); the limit is {rule.max:.2%}."
    return Check(rule=name, status="passed" if share <= rule.max else "failed", message=message)


def _parity(rule: ParityRule, parity: Parity, baseline: Side) -> Check:
    requested = baseline.counts["requested"]
    share = parity.same / requested if requested else 0.0
    message = f"{parity.same} of {requested:g} answers are the same text ({share:.2%}); the limit is {rule.min:.2%}."
    return Check(rule="same text", status="passed" if share >= rule.min else "failed", message=message)


def _same(part: str, baseline: Side, other: Side) -> Check:
    rule = f"same {part}"
    first, second = (_part(side.spec, part) for side in (baseline, other))
    if first is _UNKNOWN or second is _UNKNOWN:
        return Check(rule=rule, status="inconclusive", message="Answers were imported; their file does not record it.")
    paths = [difference.path for difference in differences(first, second, path=part)]
    message = f"The runs differ in {', '.join(paths)}." if paths else "Both runs have the same."
    return Check(rule=rule, status="failed" if paths else "passed", message=message)


def _part(spec: Mapping[str, JsonValue], part: str) -> JsonValue:
    """Return a part of a pinned spec; of imported answers only the decoding that their file records is known."""
    target = spec.get("target")
    if not isinstance(target, dict) or target.get("kind") != "import" or part not in _UNKNOWN_OF_IMPORTS:
        return spec.get(part)
    return target.get("decoding") or _UNKNOWN if part == "decoding" else _UNKNOWN


def number_of(value: object) -> float | None:
    """Return a number of a JSON value, or None."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
