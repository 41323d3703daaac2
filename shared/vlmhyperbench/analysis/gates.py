"""Gates: a policy that a run must meet compared with a baseline, checked rule by rule.

`max_drop` is a test of non-inferiority: it passes where the whole 95 % interval of the paired difference stays within
the margin, fails where all of it lies beyond, and is inconclusive between: too few samples to tell is no pass. Answers
without a value count as the worst and as the best that they could be, so that none of them helps a run to pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag, model_validator

from vlmhyperbench.analysis.comparison import Delta
from vlmhyperbench.analysis.costs import why_costs_differ_in_kind
from vlmhyperbench.domain.identity import Measurement, differences, measured_apart

_UNKNOWN: JsonValue = {"unknown": True}
_OF_ASKING = frozenset({"prompt", "decoding", "scenario", "response_format"})
_MISSED = 0.025
"""Chance of one end of a 95 % interval."""

Status = Literal["passed", "failed", "inconclusive"]
Share = Annotated[float, Field(ge=0)]
MEMORY = "peak_memory_bytes"
"""Measured independently of the requests: late sends do not affect it."""
_MEMORY_OF = "peak_memory_of"

Speed = Literal[
    "latency_p50_ms",
    "latency_p99_ms",
    "ttft_p50_ms",
    "output_tokens_per_s",
    "samples_per_s",
    "peak_memory_bytes",
    "cost_per_answer",
    "cost_per_million_tokens",
]
COSTS = frozenset({"cost_per_answer", "cost_per_million_tokens"})
Counted = Literal["model_failures", "infrastructure_failures", "missing", "truncated", "unscored", "invalid"]
_OF_METRICS = frozenset({"unscored", "invalid"})
Part = Literal[
    "target", "task", "dataset", "prompt", "metrics", "extractors", "decoding", "scenario", "response_format"
]


class Strict(BaseModel):
    """Base of everything in a policy."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class MetricRule(Strict):
    """What a metric must be, by itself or compared with the baseline."""

    metric: str
    """As the report names it: `anls`, or `anls@inclusive` where a run has two profiles."""
    max_drop: Share | None = None
    """How much worse than the baseline it may be, in the metric's own unit and direction."""
    min_value: float | None = None
    max_value: float | None = None

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if self.max_drop is None and self.min_value is None and self.max_value is None:
            raise ValueError("it needs max_drop, min_value or max_value")
        return self


class SpeedRule(Strict):
    """How much a speed may change, as a share of the baseline's; speeds are measured once, so this is no test."""

    speed: Speed
    max_increase: Share | None = None
    max_decrease: Annotated[float, Field(ge=0, lt=1)] | None = None

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if self.max_increase is None and self.max_decrease is None:
            raise ValueError("it needs max_increase or max_decrease")
        return self


class ShareRule(Strict):
    """How large a share of the requests may be lost."""

    share: Counted
    metric: str | None = None
    """Whose answers without a value, or that it cannot read, are counted; by default those of the worst metric."""
    max: Annotated[float, Field(ge=0, le=1)]

    @model_validator(mode="after")
    def _is_of_a_metric(self) -> Self:
        if self.metric is not None and self.share not in _OF_METRICS:
            raise ValueError(f"{self.share} is no share of a metric")
        return self


class SameRule(Strict):
    """What must not differ from the baseline, so that the comparison is of the right thing."""

    same: Annotated[tuple[Part, ...], Field(min_length=1)]


def _tag(value: object) -> str:
    names = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    return next((f"of {name}" for name in ("speed", "share", "same") if name in names), "of metric")


Rule = Annotated[
    Annotated[MetricRule, Tag("of metric")]
    | Annotated[SpeedRule, Tag("of speed")]
    | Annotated[ShareRule, Tag("of share")]
    | Annotated[SameRule, Tag("of same")],
    Discriminator(_tag),
]


class GatePolicy(Strict):
    """Rules that all have to be met."""

    version: Literal[1] = 1
    inconclusive: Literal["fail", "pass"] = "fail"
    """What a rule counts as that the samples cannot decide."""
    rules: Annotated[tuple[Rule, ...], Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRun:
    """What a metric came to over a whole run."""

    value: float | None
    """Over the answers that have one."""
    lower: float | None
    """The lowest that it could be, whatever the others were; None where nobody can say."""
    upper: float | None
    """The highest."""
    without: float
    """Requests that have a row, but no value."""
    lost: Mapping[str, float]
    """Answers that are `unscored`, and those that are `invalid`, with a value or without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What a gate reads of a run."""

    metrics: Mapping[str, WholeRun]
    headline: Mapping[str, JsonValue]
    counts: Mapping[str, float]
    spec: Mapping[str, JsonValue]
    measurement: Measurement
    is_interrupted: bool
    is_stopped: bool
    """Whether its stop rule ended it before every sample was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What one rule came to."""

    rule: str
    status: Status
    message: str


def check(policy: GatePolicy, *, baseline: Side, other: Side, deltas: Mapping[str, Delta]) -> list[Check]:
    """Check every rule, in their order; `deltas` are the paired differences by the metric's name."""
    checks: list[Check] = []
    for rule in policy.rules:
        match rule:
            case MetricRule():
                checks += _metric(rule, deltas, baseline, other)
            case SpeedRule():
                checks.append(_speed(rule, baseline, other))
            case ShareRule():
                checks.append(_share(rule, other))
            case _:
                checks += [_same(part, baseline, other) for part in rule.same]
    return checks


def is_met(policy: GatePolicy, checks: list[Check]) -> bool:
    """Say whether a run passes."""
    bad = {"failed"} if policy.inconclusive == "pass" else {"failed", "inconclusive"}
    return not any(check.status in bad for check in checks)


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
    """Check a value, and whether the answers without one could bring it beyond the limit; if nobody can say, maybe."""
    if measured.value is None:
        return Check(rule=rule, status="failed", message="It has no value.")
    said = f"It is {measured.value:.4g}, the limit {limit:g}"
    if sign * (measured.value - limit) < 0:
        return Check(rule=rule, status="failed", message=f"{said}.")
    worst = measured.lower if sign == 1 else measured.upper
    without = measured.without + other.counts["missing"]
    if not without or (worst is not None and not other.counts["missing"] and sign * (worst - limit) >= 0):
        return Check(rule=rule, status="passed", message=f"{said}.")
    end = "nobody can say how far from it" if worst is None else f"{worst:.4g} at the worst of those that were asked"
    message = f"{said}; {without:g} of {other.counts['requested']:g} requests have no value, so it could be {end}."
    return Check(rule=rule, status="inconclusive", message=message)


def _without_pair(delta: Delta, baseline: Side, other: Side) -> int:
    """Count the answers that a difference should rest on and does not, among them those that neither run has.

    What a stop rule spared is none of them: it asks in an order drawn at random.
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
        message = "Nobody says whether more of it is better, so no change of it is a drop."
        return Check(rule=rule, status="inconclusive", message=message)
    if delta.difference is None:
        return Check(rule=rule, status="failed", message="No answers could be paired.")
    sign = -1 if delta.direction == "higher" else 1
    worse = sign * delta.difference
    least, most = _ends(delta, worse, sign)
    said = f"{abs(worse):.4g} {'worse' if worse > 0 else 'better'}" if worse else "no difference"
    message = f"{said} (95 % interval of the drop {least:.4g} to {most:.4g}, {delta.pairs} pairs); at most {limit:g}."
    if lost:
        least, most = (_with_lost(delta, end, lost, side) for end, side in ((least, -1), (most, 1)))
        reach = f"{least:.4g} to {most:.4g}" if delta.is_bounded else "any number"
        message += f" Answers without a pair: {lost}; with them, the drop could be {reach}."
    status: Status = "passed" if most <= limit else "failed" if least > limit else "inconclusive"
    return Check(rule=rule, status=status, message=message)


def _ends(delta: Delta, worse: float, sign: int) -> tuple[float, float]:
    """Return the interval of the drop.

    Where all documents differ alike there is no spread to draw one from: then so large a share of all documents as
    would have been missed in 1 of 40 samples of this size may differ by the whole scale.
    """
    if delta.low is not None and delta.high is not None:
        low, high = sorted((sign * delta.low, sign * delta.high))
        return low + 0.0, high + 0.0  # no -0
    reach = (1 - _MISSED ** (1 / delta.units)) * delta.scale
    return worse - reach, worse + reach


def _with_lost(delta: Delta, end: float, lost: int, side: int) -> float:
    """Add answers that differ by the whole scale to one end of an interval."""
    reach = delta.scale if delta.is_bounded else math.inf
    return (delta.pairs * end + side * lost * reach) / (delta.pairs + lost)


def _speed(rule: SpeedRule, baseline: Side, other: Side) -> Check:
    before, after = (_number(side.headline.get(rule.speed)) for side in (baseline, other))
    if rule.speed in COSTS and (why := why_costs_differ_in_kind(baseline.headline, other.headline)):
        return Check(rule=rule.speed, status="inconclusive", message=why)
    if baseline.is_interrupted or other.is_interrupted:
        return Check(rule=rule.speed, status="inconclusive", message="A run was interrupted, or timed in part.")
    if before is None or after is None:
        return Check(rule=rule.speed, status="inconclusive", message="It was not measured in both runs.")
    if rule.speed == MEMORY and (of := two_kinds_of_memory(baseline.headline, other.headline)):
        return Check(rule=rule.speed, status="inconclusive", message=of)
    if rule.speed != MEMORY and "invalid" in (baseline.headline.get("validity"), other.headline.get("validity")):
        message = "A run's speeds are INVALID as a measurement; its report says why."
        return Check(rule=rule.speed, status="inconclusive", message=message)
    apart = measured_apart(baseline.measurement, other.measurement)
    if apart:
        return Check(rule=rule.speed, status="inconclusive", message=f"The runs differ in {', '.join(apart)}.")
    if before == 0:
        message = f"The baseline's is 0, so there is no relative change; the run's is {after:.4g}."
        return Check(rule=rule.speed, status="inconclusive", message=message)
    change = after / before - 1
    is_over = rule.max_increase is not None and after > before * (1 + rule.max_increase)
    is_under = rule.max_decrease is not None and after < before * (1 - rule.max_decrease)
    message = f"{before:.4g} became {after:.4g} ({change:+.1%})."
    return Check(rule=rule.speed, status="failed" if is_over or is_under else "passed", message=message)


def two_kinds_of_memory(baseline: Mapping[str, object], other: Mapping[str, object]) -> str | None:
    """Say that the peaks of two headlines are of different things; None where they are of one, or nobody knows."""
    before, after = baseline.get(_MEMORY_OF), other.get(_MEMORY_OF)
    if before is None or after is None or before == after:
        return None
    return f"One peak of memory is of the {before}, the other of the {after}."


def _share(rule: ShareRule, other: Side) -> Check:
    if rule.share in _OF_METRICS:
        return _share_of_metric(rule, other)
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
    message = f"{count:g} of {requested:g} requests ({share:.2%}); at most {rule.max:.2%}."
    return Check(rule=name, status="passed" if share <= rule.max else "failed", message=message)


def _same(part: str, baseline: Side, other: Side) -> Check:
    rule = f"same {part}"
    first, second = (_part(side.spec, part) for side in (baseline, other))
    if first is _UNKNOWN or second is _UNKNOWN:
        return Check(rule=rule, status="inconclusive", message="Answers were imported; their file does not say it.")
    found = [difference.path for difference in differences(first, second, path=part)]
    message = f"It differs in {', '.join(found)}." if found else "It is the same."
    return Check(rule=rule, status="failed" if found else "passed", message=message)


def _part(spec: Mapping[str, JsonValue], part: str) -> JsonValue:
    """Return a part of a pinned spec; of how imported answers were asked only what their file says is known."""
    target = spec.get("target")
    if not isinstance(target, dict) or target.get("kind") != "import" or part not in _OF_ASKING:
        return spec.get(part)
    return target.get("decoding") or _UNKNOWN if part == "decoding" else _UNKNOWN


def _number(value: JsonValue) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
