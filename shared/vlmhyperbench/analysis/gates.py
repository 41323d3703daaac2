"""Gates: a policy that a run must meet beside a baseline, checked rule by rule.

`max_drop` is a test of non-inferiority: it passes where the whole 95 % interval of the paired difference stays within
the margin, fails where all of it lies beyond, and is inconclusive between: too few samples to tell is no pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag, model_validator

from vlmhyperbench.analysis.comparison import Delta
from vlmhyperbench.domain.identity import differences

Status = Literal["passed", "failed", "inconclusive"]
Share = Annotated[float, Field(ge=0)]
Speed = Literal[
    "latency_p50_ms", "latency_p99_ms", "ttft_p50_ms", "output_tokens_per_s", "samples_per_s", "peak_memory_bytes"
]
Counted = Literal["model_failures", "infrastructure_failures", "missing", "truncated", "unscored"]
Part = Literal[
    "target", "task", "dataset", "prompt", "metrics", "extractors", "decoding", "scenario", "response_format"
]


class Strict(BaseModel):
    """Base of everything in a policy."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class MetricRule(Strict):
    """What a metric must be, alone or beside the baseline."""

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
    max: Annotated[float, Field(ge=0, le=1)]


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
class Side:
    """What a gate reads of a run."""

    values: Mapping[str, float]
    """Each metric's value over all answers of the run that have one."""
    headline: Mapping[str, JsonValue]
    counts: Mapping[str, float]
    spec: Mapping[str, JsonValue]
    is_interrupted: bool


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
                checks += _metric(rule, deltas.get(rule.metric), other, sorted(deltas))
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
    return not any(one.status in bad for one in checks)


def _metric(rule: MetricRule, delta: Delta | None, other: Side, known: list[str]) -> list[Check]:
    if delta is None:
        message = f"The runs do not share the metric; they share {', '.join(known) or 'none'}."
        return [Check(rule=rule.metric, status="failed", message=message)]
    checks = []
    if rule.max_drop is not None:
        checks.append(_drop(rule.metric, rule.max_drop, delta))
    value = other.values.get(rule.metric)
    for name, limit, sign in (("min_value", rule.min_value, 1), ("max_value", rule.max_value, -1)):
        if limit is not None:
            is_right = value is not None and sign * (value - limit) >= 0
            said = "It has no value." if value is None else f"It is {value:.4g}, the limit {limit:g}."
            checks.append(Check(rule=f"{rule.metric} {name}", status="passed" if is_right else "failed", message=said))
    return checks


def _drop(metric: str, limit: float, delta: Delta) -> Check:
    rule = f"{metric} max_drop"
    if delta.difference is None:
        return Check(rule=rule, status="failed", message="No answers could be paired.")
    sign = -1 if delta.direction == "higher" else 1
    ends = sorted(sign * end for end in (delta.low, delta.high) if end is not None) or [sign * delta.difference] * 2
    least, most = ends[0], ends[-1]
    status: Status = "passed" if most <= limit else "failed" if least > limit else "inconclusive"
    worse = sign * delta.difference
    said = f"{abs(worse):.4g} {'worse' if worse > 0 else 'better'}" if worse else "no difference"
    message = f"{said} (95 % interval of the drop {least:.4g} to {most:.4g}, {delta.pairs} pairs); at most {limit:g}."
    return Check(rule=rule, status=status, message=message)


def _speed(rule: SpeedRule, baseline: Side, other: Side) -> Check:
    before, after = (_number(side.headline.get(rule.speed)) for side in (baseline, other))
    if baseline.is_interrupted or other.is_interrupted:
        return Check(rule=rule.speed, status="inconclusive", message="A run was interrupted: its speed is no measure.")
    if not before or after is None:
        return Check(rule=rule.speed, status="inconclusive", message="It was not measured in both runs.")
    change = after / before - 1
    is_over = rule.max_increase is not None and after > before * (1 + rule.max_increase)
    is_under = rule.max_decrease is not None and after < before * (1 - rule.max_decrease)
    message = f"{before:.4g} became {after:.4g} ({change:+.1%})."
    return Check(rule=rule.speed, status="failed" if is_over or is_under else "passed", message=message)


def _share(rule: ShareRule, other: Side) -> Check:
    requested = other.counts["requested"]
    share = other.counts[rule.share] / requested if requested else 1.0
    message = f"{other.counts[rule.share]:g} of {requested:g} requests ({share:.2%}); at most {rule.max:.2%}."
    return Check(rule=f"share of {rule.share}", status="passed" if share <= rule.max else "failed", message=message)


def _same(part: str, baseline: Side, other: Side) -> Check:
    found = [one.path for one in differences(baseline.spec.get(part), other.spec.get(part), path=part)]
    message = f"It differs in {', '.join(found)}." if found else "It is the same."
    return Check(rule=f"same {part}", status="failed" if found else "passed", message=message)


def _number(value: JsonValue) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
