"""The policy of a gate, as users write it: rules with their limits. `gates` checks them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

Share = Annotated[float, Field(ge=0)]
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
Counted = Literal["model_failures", "infrastructure_failures", "missing", "truncated", "unscored", "invalid"]
OF_METRICS = frozenset({"unscored", "invalid"})
"""What is counted by metric."""
Part = Literal[
    "target", "task", "dataset", "prompt", "metrics", "extractors", "decoding", "scenario", "response_format"
]


class Strict(BaseModel):
    """Base of everything in a policy."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RunRule(Strict):
    """What every rule may state."""

    runs: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Names of the runs that the rule is for; by default it is for all that are compared with the baseline."""


class MetricRule(RunRule):
    """Limits of a metric's value, and of its drop from the baseline."""

    metric: str
    """Name of the metric in the report: `anls`, or `anls@inclusive` where a run has two profiles."""
    max_drop: Share | None = None
    """By how much the metric may be worse than the baseline, in its own unit and direction."""
    min_value: float | None = None
    max_value: float | None = None

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if self.max_drop is None and self.min_value is None and self.max_value is None:
            raise ValueError("it needs max_drop, min_value or max_value")
        return self


class SpeedRule(RunRule):
    """Limits of a speed's change, as a share of the baseline's; a speed is measured once, so this is no test."""

    speed: Speed
    max_increase: Share | None = None
    max_decrease: Annotated[float, Field(ge=0, lt=1)] | None = None

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if self.max_increase is None and self.max_decrease is None:
            raise ValueError("it needs max_increase or max_decrease")
        return self


class ShareRule(RunRule):
    """Largest share of the requests that may be lost."""

    share: Counted
    metric: str | None = None
    """Metric whose `unscored` or `invalid` answers are counted; by default the metric with the most."""
    max: Annotated[float, Field(ge=0, le=1)]

    @model_validator(mode="after")
    def _is_of_a_metric(self) -> Self:
        if self.metric is not None and self.share not in OF_METRICS:
            raise ValueError(f"{self.share} is not counted by metric: leave `metric` out")
        return self


class SameRule(RunRule):
    """Parts of the spec that must be equal to the baseline's."""

    same: Annotated[tuple[Part, ...], Field(min_length=1)]


class ParityRule(RunRule):
    """Smallest share of the baseline's answers to which the run gives the same text.

    It is a bound on the questions that were asked, not an inference from them. An answer without a pair is not
    the same.
    """

    parity: Literal["same_text"]
    min: Annotated[float, Field(ge=0, le=1)]


def _tag(value: object) -> str:
    names = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    return next((f"of {name}" for name in ("speed", "share", "same", "parity") if name in names), "of metric")


Rule = Annotated[
    Annotated[MetricRule, Tag("of metric")]
    | Annotated[SpeedRule, Tag("of speed")]
    | Annotated[ShareRule, Tag("of share")]
    | Annotated[SameRule, Tag("of same")]
    | Annotated[ParityRule, Tag("of parity")],
    Discriminator(_tag),
]


class GatePolicy(Strict):
    """Rules, all of which must be met."""

    version: Literal[1] = 1
    inconclusive: Literal["fail", "pass"] = "fail"
    """Whether an inconclusive rule fails or passes."""
    rules: Annotated[tuple[Rule, ...], Field(min_length=1)]
